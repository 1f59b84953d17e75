// <studio-picture>: a view in a frame of its own, whose scripts may load nothing. A choice in it is told as "moved".

import { SILENT, ask, element } from "./dom.js";

const LIVE = 3000; // milliseconds between two looks at runs that still train

export class StudioPicture extends HTMLElement {
  // the promise is kept when the picture is there
  show(path, title, hash) {
    this.frame = element("iframe", { title, src: path + hash });
    this.replaceChildren(this.frame);
    return new Promise((resolve, reject) =>
      this.frame.addEventListener("load", () => {
        const { contentDocument } = this.frame;
        if (!contentDocument) return reject(new Error(SILENT));
        for (const kind of ["click", "change", "input", "keyup"])
          contentDocument.addEventListener(kind, () => setTimeout(() => this.dispatchEvent(new CustomEvent("moved"))));
        const drawn = contentDocument.contentType === "text/html" && !contentDocument.querySelector("[role=alert]");
        this.frame.classList.toggle("failed", !drawn);
        resolve(drawn);
      }),
    );
  }

  // send the page what the runs have written since
  follow(path) {
    this.timer = setInterval(async () => {
      if (document.hidden) return;
      const data = await ask(path).catch(() => null); // the next look may find it again
      if (data) this.frame.contentWindow.postMessage(data, location.origin);
    }, LIVE);
  }

  disconnectedCallback() {
    clearInterval(this.timer);
  }

  get hash() {
    return this.frame.contentWindow.location.hash;
  }

  get page() {
    return this.frame.contentDocument;
  }
}

customElements.define("studio-picture", StudioPicture);

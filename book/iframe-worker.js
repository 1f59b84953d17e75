// A page opened from the disk may start no worker, and the search runs in one. Here it runs in a hidden frame instead:
// a script that is told things by `onmessage` and answers by `postMessage` notices no difference.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => tell(Promise.resolve(this), data);
      this.ready = new Promise((resolve, reject) => {
        const script = inner.document.createElement("script");
        script.src = new URL(address, location.href);
        script.onload = () => resolve(inner);
        script.onerror = reject;
        inner.document.body.append(script);
      });
      this.ready.catch((error) => this.onerror?.(error));
    }
    postMessage(data) {
      tell(this.ready, data);
    }
    terminate() {
      this.frame.remove();
    }
  };

  function tell(side, data) {
    const copy = structuredClone(data); // as between threads, neither side sees what the other changes later
    side.then((one) => setTimeout(() => one.onmessage?.({ data: copy })), () => {});
  }
}

"""Build the site: python book/website.py, or `make docs`; it is then in build/book/site, and opens from there.

The pages of docs/, the README, the cards of the models and what stands at the top of the repository are copied, with
links between them turned to where they are in the site; the reference is made from the code (reference.py), and the
chapters of the course are run (course.py). Zensical makes HTML of it and fails on a link or an anchor that leads
nowhere; this script fails on a page that is in no menu, and on anything that a browser would fetch from elsewhere.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

import course
import reference

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "book"
BOX = "src/clearhead/builtin"
# where a file of the repository is in the site; of docs/, where it is there
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "docs/guides/README.md": "guides/index.md",
    "make-model/README.md": "models/making.md",
    f"{BOX}/encoder/README.md": "models/encoder.md",
    f"{BOX}/encoder/curve.svg": "models/curve.svg",
    f"{BOX}/translator/README.md": "models/translator.md",
    "book/iframe-worker.js": "iframe-worker.js",  # so that the search works from the disk, too
    "book/site.css": "site.css",
}
SHOWN = (".md", ".png", ".svg", ".webp")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
_FETCHED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"?(https?://[^\"\s>]*)[^>]*>")


def places() -> dict[str, str]:
    """Every file that goes into the site, by its path in the repository."""
    docs = ROOT / "docs"
    shown = (path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*")) if path.suffix in SHOWN)
    return {f"docs/{name}": name for name in shown} | PAGES


def turned(text: str, source: str, known: dict[str, str]) -> str:
    """A page with its links turned to where their targets are; a file that is not in the site is only named.

    A picture that is not there is no page: it ends the build.
    """

    def turn(found: re.Match[str]) -> str:
        sign, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        at = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if at not in known and sign:
            sys.exit(f"{source} shows {at}, which is not in the site")
        if at not in known:
            return f"{words} (`{at}`)"
        to = posixpath.relpath(known[at], posixpath.dirname(known[source]) or ".")
        return f"{sign}[{words}]({to}{anchor})"

    # a block of code is no prose, and nothing in it is a link
    blocks = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(turn, part) for part in blocks)


def write_pages(folder: Path) -> list[str]:
    """Write every page and picture of the site, and give their names."""
    known = places()
    for source, target in known.items():
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = (ROOT / source).read_text(encoding="utf-8")
            path.write_text(turned(_without_front_matter(text), source, known), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / source, path)
    made = {f"reference/{name}": page() for name, page in reference.PAGES.items()}
    for part in ("reference", "course"):
        (folder / part).mkdir(exist_ok=True)
    made |= {f"course/{path.stem}.md": course.page(path, folder / "course") for path in course.chapters()}
    course.write_notebooks(folder / "course" / "notebooks")
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [name for name in (*known.values(), *made) if name.endswith(".md")]


def _without_front_matter(text: str) -> str:
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)


def not_in_the_menu(pages: list[str]) -> list[str]:
    """Pages that nobody would find."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    return [page for page in pages if not re.search(rf": {re.escape(page)}$", menu, re.MULTILINE)]


def fetched_elsewhere(site: Path) -> list[str]:
    """What the pages would fetch from other hosts; canonical links and links that a reader may follow are none."""
    found = {address for page in site.rglob("*.html") for address in _FETCHED.findall(page.read_text(encoding="utf-8"))}
    return sorted(found)


def main() -> None:
    """Build it anew."""
    shutil.rmtree(BUILT, ignore_errors=True)
    (BUILT / "pages").mkdir(parents=True)
    if lost := not_in_the_menu(write_pages(BUILT / "pages")):
        sys.exit(f"not in the menu of mkdocs.yml: {', '.join(lost)}")
    zensical = Path(sys.executable).with_name("zensical")
    subprocess.run(
        [zensical, "build", "--clean", "--strict", "--config-file", "mkdocs.yml"],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        check=True,
    )
    if addresses := fetched_elsewhere(BUILT / "site"):
        sys.exit(f"pages would fetch {', '.join(addresses)}")
    print(f"the site is in {(BUILT / 'site').relative_to(ROOT)}; open index.html there")


if __name__ == "__main__":
    main()

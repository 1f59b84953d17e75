"""Pages as a browser's parser sees them, and texts that try to be markup."""

import json
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "img", "link"}
NASTY = [
    "</script><script>alert(1)</script>",
    "<!--",
    "<script",
    "]]>",
    "&lt;b&gt;",
    "'\"`${1}",
    "\u2028\u2029",
    "\x00",
]


class Page(HTMLParser):
    """The page as a browser's parser sees it: elements, and the text of every script by its id."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.scripts, self.style, self.text = [], {}, "", ""
        self._open, self._stack = None, []
        self.feed(html)
        assert self._stack == [], "every element that opens is closed"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs).get("id", "code"))
        if tag not in VOID:
            self._stack.append(tag)

    def handle_data(self, data):
        tag, name = self._open or ("", "")
        if tag == "script":
            self.scripts[name] = self.scripts.get(name, "") + data
        elif tag == "style":
            self.style += data
        else:
            self.text += data

    def handle_endtag(self, tag):
        self._open = None
        assert self._stack.pop() == tag, f"</{tag}> closes another element"

    @property
    def facts(self):
        return json.loads(self.scripts["facts"])

    @property
    def policy(self):
        return next(a["content"] for _, a in self.elements if a.get("http-equiv") == "Content-Security-Policy")

"""In a notebook: a field above a picture, and Python draws it anew whenever the text changes."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from clearhead.errors import ClearheadError, NotFound
from clearhead.inside.page import View


def live(draw: Callable[[str], View], text: str) -> Any:
    """A widget (anywidget) that shows `draw(text)`: live(lambda text: trace(model, text).heads(), "The animal …").

    Its `text` can be read and set from Python; what is wrong with a text is said in the place of the picture.
    """
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise NotFound(f"a live view needs {error.name}; run: pip install 'clearhead[notebook]'") from None

    class Live(anywidget.AnyWidget):
        _esm = (files("clearhead.inside") / "widget.js").read_text(encoding="utf-8")
        text = traitlets.Unicode().tag(sync=True)
        page = traitlets.Unicode().tag(sync=True)
        problem = traitlets.Unicode().tag(sync=True)

        @traitlets.observe("text")
        def _draw(self, change: Any) -> None:
            try:
                self.page, self.problem = draw(self.text).html, ""
            except ClearheadError as error:
                self.problem = str(error)

    return Live(text=text)

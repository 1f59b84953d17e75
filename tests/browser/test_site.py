"""The documentation in a browser: its search works from the disk, and a picture leaves its chapter where it is."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from clearhead.inside.by_hand import by_hand

pytestmark = pytest.mark.browser
SHIM = Path(__file__).parents[2] / "book" / "iframe-worker.js"
PAGE = """<!doctype html><title>x</title><body><script src="iframe-worker.js"></script><script>
const worker = new Worker("count.js"), question = {words: ["a"]};
window.answers = [];
worker.onmessage = ({data}) => { window.answers.push(data.words.join(" ")); data.words.push("changed"); };
worker.postMessage(question);
question.words.push("later");
worker.postMessage(question);
</script>"""
WORKER = "const all = []; onmessage = ({data}) => { all.push(...data.words); self.postMessage({words: all}); };"


def test_a_worker_runs_and_neither_side_sees_what_the_other_changes(visit, tmp_path):
    (tmp_path / "iframe-worker.js").write_text(SHIM.read_text(encoding="utf-8"))
    (tmp_path / "count.js").write_text(WORKER)
    (tmp_path / "page.html").write_text(PAGE)
    page = visit((tmp_path / "page.html").as_uri(), "file:")
    page.wait_for_function("() => window.answers.length === 2")
    assert page.evaluate("window.answers") == ["a", "a a later"]
    page.evaluate("worker.terminate()")
    assert page.locator("iframe").count() == 0


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each."""

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def served(tmp_path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_chapter_stays_at_its_top_while_its_picture_comes(visit, tmp_path, served):
    by_hand().save(tmp_path / "picture.html")
    (tmp_path / "chapter.html").write_text(
        '<!doctype html><title>x</title><link rel="icon" href="data:,">'
        '<div style="height: 3000px"></div><iframe src="picture.html" height="600"></iframe>'
    )
    page = visit(f"{served}/chapter.html", served)
    (frame,) = page.frames[1:]
    assert frame.locator("#steps").count() == 1
    frame.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    assert page.evaluate("scrollY") == 0
    assert frame.url == f"{served}/picture.html"

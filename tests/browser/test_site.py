"""The documentation's search works in a page that is opened from the disk, where browsers start no worker."""

from pathlib import Path

import pytest

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

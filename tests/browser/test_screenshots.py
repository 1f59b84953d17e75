"""The pictures in docs/ show the pages as they are now: `python tests/browser/screenshots.py` takes them anew."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
DOCS = Path(__file__).parents[2] / "docs"
WITH_A_RUN = {"runs"}  # which needs the folder of a long training run
# of 255, the mean difference of a picture that is made small and grey: other fonts and a bar's last digit stay below
# it, another layout, view or colour does not
MOST = 4.5


@pytest.fixture(scope="module")
def taken(tmp_path_factory, browser) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        import screenshots

        folder = tmp_path_factory.mktemp("pictures")
        patch.setattr(screenshots, "DOCS", folder)
        screenshots.take(browser, [])
    return folder


def small(path: Path) -> bytes:
    from PIL import Image

    return Image.open(path).convert("L").resize((64, 48)).tobytes()


def difference(one: Path, other: Path) -> float:
    pairs = zip(small(one), small(other), strict=True)
    return sum(abs(a - b) for a, b in pairs) / (64 * 48)


def test_every_picture_shows_its_page_as_it_is(taken):
    names = {path.stem for path in taken.glob("*.png")}
    assert names | WITH_A_RUN == {path.stem for path in DOCS.glob("*.png")}
    stale = {
        name: round(off, 1) for name in names if (off := difference(taken / f"{name}.png", DOCS / f"{name}.png")) > MOST
    }
    assert stale == {}, "run python tests/browser/screenshots.py"


def test_another_page_is_noticed(taken):
    assert difference(taken / "attention.png", taken / "studio.png") > MOST
    assert difference(taken / "why.png", taken / "senses.png") > MOST

"""Measured figures: the pages have those of the files in benchmarks/results, and the README those of the pages."""

import json
import re
from pathlib import Path

import pytest

import record
import result_tables

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?")


def test_tables_of_the_pages_are_those_of_the_files():
    pages = list(result_tables.pages())
    assert [path.name for path in pages] == ["benchmarks.md"]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert result_tables.filled(text) == text, (
            f"{path.name} is not as the files have it; run python book/result_tables.py"
        )


def test_no_table_of_the_benchmarks_was_typed():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    made = re.sub(r"<!-- figures: \S+ -->.*?<!-- end -->", "", page, flags=re.DOTALL)
    assert re.findall(r"^ *\|.*", made, re.MULTILINE) == []


@pytest.mark.parametrize("path", sorted(result_tables.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_file_says_what_made_it_and_is_shown(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    assert tuple(found) == result_tables.KEYS
    assert re.match(r"\d{4}-\d\d-\d\d", found["date"])
    for script in re.findall(r"benchmarks/\w+\.py", found["command"]):
        assert (ROOT / script).is_file()
    assert f"<!-- figures: {path.stem} -->" in (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_the_readme_says_what_the_page_says():
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Measured\n")[1].split("\n## ")[0]
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").replace(",", "")
    told = {float(number) for number in NUMBER.findall(page)}
    cells = [cell for row in re.findall(r"^\|(.*)\|$", readme, re.MULTILINE)[2:] for cell in row.split("|")[1:]]
    numbers = [number.replace(",", "") for cell in cells for number in NUMBER.findall(cell)]
    assert len(numbers) > 60
    assert [number for number in numbers if not as_in(number, told)] == []


def as_in(number: str, told: set[float]) -> bool:
    """Whether the page has this number, with as many digits or more."""
    digits = len(number.partition(".")[2]) if "e" not in number else 9
    return float(number) in {round(one, digits) for one in told}


def test_a_script_keeps_its_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(result_tables, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["/somewhere/benchmarks/cpu_embed.py", "--threads", "2"])
    columns = {"Engine": "{}", "tokens/s": "{:,.0f}", "F1": "{:.2f} ± {:.2f}", "change": "{:+.1f}"}
    rows = [["ours", 8123.4, [82.18, 0.07], -0.04], ["peer", 4200, None, 3]]
    record.record("speed", columns, rows, threads=2, load="nothing beside it")
    lines = result_tables.table("speed").splitlines()
    assert lines[2] == "| ours | 8,123 | 82.18 ± 0.07 | −0.0 |"
    assert lines[3] == "| peer | 4,200 | | +3.0 |"
    assert lines[-1].startswith("<small>`python benchmarks/cpu_embed.py --threads 2`; 20")
    assert "2 threads, nothing beside it; torch " in lines[-1]
    with pytest.raises(ValueError, match="a row of speed has 1 cells for 4 columns"):
        record.record("speed", columns, [["ours"]], threads=2)


def test_a_page_that_was_typed_by_hand_is_noticed():
    page = "<!-- figures: gpu_mlm -->\n| Length |\n<!-- end -->\n"
    assert result_tables.filled(page).count("| 512 | 735 |") == 1

"""The man page has every verb, option and environment variable, and roff reads it without a warning."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import manual
import reference

SOURCE = Path(__file__).parents[1] / "src" / "clearhead"


@pytest.fixture(scope="module")
def page() -> str:
    return manual.manual()


def test_every_verb_and_option_is_there(page):
    for path, command in reference.commands():
        section = page.split(f'.SS "clearhead {path}"\n')[1].split("\n.S")[0]
        for one in command.params:
            if one.param_type_name == "option" and not one.hidden and one.name != "help":
                assert manual.plain(one.opts[0]) in section, f"clearhead {path} {one.opts[0]}"


def test_variables_are_those_that_the_package_reads(page):
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    for name in manual.ENVIRONMENT:
        assert name.startswith(("NO_", "OMP_")) or name in source
        assert rf"\fB{name}\fR" in page


def test_what_roff_would_obey_is_shown():
    assert manual.plain(r".TH \n-x “a”") == r"\&.TH \en\-x \[u201C]a\[u201D]"
    assert manual.plain("'quoted' `code`") == r"\&'quoted' code"


def test_the_page_is_ascii_and_its_macros_are_known(page):
    assert page.isascii()
    macros = set(re.findall(r"^\.(\w+)", page, re.MULTILINE))
    assert macros <= {"TH", "SH", "SS", "TP", "PP"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here")
def test_roff_reads_it_without_a_warning(page, tmp_path):
    path = tmp_path / "clearhead.1"
    path.write_text(page)
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", path], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "documentation of the package" in done.stdout

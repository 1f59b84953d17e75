"""The man page, made from the help texts: python book/manual.py writes build/man/clearhead.1, `make man` too.

Read it with `man build/man/clearhead.1`; `make release` puts it into dist/, for those who package clearhead.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clearhead
import reference

TARGET = Path(__file__).resolve().parents[1] / "build" / "man" / "clearhead.1"
ABOUT = (
    "An argument is a text, --in names files and folders, - or nothing is stdin. Results go to stdout, progress and "
    "notes to stderr; --json prints one object a line. Nothing is fetched from a network unless a hub model is named."
)
ENVIRONMENT = {
    "CLEARHEAD_SERVER": "The address of a service that the verbs ask, as --server names it.",
    "CLEARHEAD_API_KEY": "The key of that service; of clearhead serve, those that requests must bring.",
    "CLEARHEAD_QUIET": "Where it is set, no progress is shown.",
    "CLEARHEAD_MAX_PARAMETERS": "The largest network that is built of a checkpoint.",
    "CLEARHEAD_TRUST_TOKENIZERS": "With 1, tokenizers of any parts are used untried: for files of your own making.",
    "NO_COLOR": "Where it is set, nothing is coloured.",
    "OMP_NUM_THREADS": "How many batches are computed at a time.",
}


def manual() -> str:
    """The whole page, in the macros of man(7)."""
    parts = [
        f'.TH CLEARHEAD 1 "" "clearhead {clearhead.__version__}" "User Commands"',
        ".SH NAME",
        r"clearhead \- the whole life of Transformers and BERT: use, train, measure, look inside",
        ".SH SYNOPSIS",
        r"\fBclearhead\fR \fIVERB\fR [\fIARGUMENT\fR ...] [\fIOPTION\fR ...]",
        ".SH DESCRIPTION",
        plain(ABOUT),
        ".SH VERBS",
    ]
    for path, command in reference.commands():
        parts += verb(path, command)
    parts.append(".SH ENVIRONMENT")
    for name, told in ENVIRONMENT.items():
        parts += [".TP", rf"\fB{name}\fR", plain(told)]
    parts += [".SH EXIT STATUS", ".TP", "0", "All went well."]
    parts += [".TP", "1", "The reader of the output has gone.", ".TP", "2"]
    parts.append(plain("What was asked cannot be done: one sentence on stderr says what, the value, and what to do."))
    parts += [".SH SEE ALSO", plain("clearhead VERB --help, and the documentation of the package.")]
    return "\n".join(parts) + "\n"


def verb(path: str, command: Any) -> Iterator[str]:
    """A verb with its arguments and options."""
    shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    named = [one for one in shown if one.param_type_name == "argument"]
    words = " ".join(rf"\fI{one.name.upper()}\fR{' ...' if one.nargs == -1 else ''}" for one in named)
    yield f'.SS "clearhead {path}"'
    yield rf"\fBclearhead {path}\fR {words} [\fIOPTION\fR ...]"
    for paragraph in re.split(r"\n\s*\n", re.sub(r"[`*]", "", command.help or "").strip()):
        yield ".PP"
        yield plain(" ".join(paragraph.split()))
    for one in shown:
        default = reference.default(one).strip("`")
        yield ".TP"
        yield rf"\fB{plain(reference.spelling(one))}\fR" + (f" ({plain(default)})" if default else "")
        yield plain(" ".join((getattr(one, "help", None) or "").split())) or r"\&"


def plain(text: str) -> str:
    """Text as roff takes it, in ASCII: no backslash, hyphen, or first dot that would mean something."""
    safe = text.replace("`", "").replace("\\", r"\e").replace("-", r"\-")
    safe = re.sub(r"[^\x00-\x7f]", lambda sign: rf"\[u{ord(sign[0]):04X}]", safe)
    return rf"\&{safe}" if safe.startswith((".", "'")) else safe


def main() -> None:
    """Write it, or where the only argument says."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(manual(), encoding="utf-8")
    sys.stdout.write(f"the man page is in {os.path.relpath(target)}\n")


if __name__ == "__main__":
    main()

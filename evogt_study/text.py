"""Print text of any origin safely.  Control characters and invisible characters become escapes."""

from __future__ import annotations

import sys

import click

CLEAR_LINE = "\r\x1b[K"


def escape_text(text: str, kept: str = "") -> str:
    r"""Return `text` with an escape such as ``\x1b`` for each character that is neither printable nor in `kept`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def print_line(line: object, err: bool = False) -> None:
    """Print exactly one line.  On a terminal, a line of standard error replaces a progress bar."""
    begin = CLEAR_LINE if err and sys.stderr is not None and sys.stderr.isatty() else ""
    click.echo(begin + escape_text(str(line)), err=err)


def print_text(text: str, err: bool = False) -> None:
    """Print text of several lines, such as a table.  The caller must escape line breaks inside cells."""
    for line in text.split("\n"):
        print_line(line, err)


def format_duration(seconds: float) -> str:
    """Return a duration as text: "1.5 ms", "8.0 s", "3 min 20 s", "5 h 12 min"."""
    whole = round(seconds)  # first, because 119.6 s would be 1 min 60 s
    if whole < 60:
        return f"{1000.0 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

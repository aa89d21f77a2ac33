"""Print text, also from untrusted sources, with escapes for control characters and invisible characters."""

import sys

import click

CLEAR_LINE = "\r\x1b[K"


def escape_text(text: str, kept: str = "") -> str:
    r"""Replace each character that is neither printable nor in `kept` by an escape such as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def print_line(line: object, err: bool = False) -> None:
    """Print one line.  On a terminal, a line on standard error replaces the progress bar."""
    begin = CLEAR_LINE if err and sys.stderr is not None and sys.stderr.isatty() else ""
    click.echo(begin + escape_text(str(line)), err=err)


def print_text(text: str, err: bool = False) -> None:
    """Print several lines, such as a table.  The caller must escape line breaks inside the cells of a table."""
    for line in text.split("\n"):
        print_line(line, err)


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun: "1 run", "1,200 runs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Format a duration as a text such as "1.5 ms", "8.0 s", "3 min 20 s" or "5 h 12 min"."""
    whole = round(seconds)  # before the division, so that 119.6 s is not 1 min 60 s
    if whole < 60:
        return f"{1000.0 * seconds:.2g} ms" if seconds < 0.1 else f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

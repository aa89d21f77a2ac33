"""Text of any origin as it may be shown: what would act on a terminal or a page, or hide, is written out."""

from __future__ import annotations

import click


def shown(text: str, kept: str = "") -> str:
    r"""`text` with each character that is not printable as its escape: ``\x1b``, ``\n``, ``\u202e``.

    That is control characters (C0, DEL, C1), the marks that turn the direction of text, separators of lines, and what
    is no character; those in `kept` stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def tell(line: object, err: bool = False) -> None:
    """Print one line, and no more than one, whatever is in it."""
    click.echo(shown(str(line)), err=err)


def tell_lines(text: str, err: bool = False) -> None:
    """Print text of several lines, such as a table, in whose cells nothing can begin a new one."""
    for line in text.split("\n"):
        tell(line, err)


def duration(seconds: float) -> str:
    """Format a time for people: "8 s", "3 min 20 s", "5 h 12 min"."""
    # rounded first, else 119.6 s would be 1 min 60 s
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

"""Print text of any origin safely: characters that act on a terminal, or hide, are printed as escapes."""

from __future__ import annotations

import click


def shown(text: str, kept: str = "") -> str:
    r"""Return `text` with each character that is not printable as its escape: ``\x1b``, ``\n``, ``\u202e``.

    These are control characters (C0, DEL, C1), marks that change the direction of text, line separators and code points
    that are no character.  Characters in `kept` stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def tell(line: object, err: bool = False) -> None:
    """Print exactly one line."""
    click.echo(shown(str(line)), err=err)


def tell_lines(text: str, err: bool = False) -> None:
    """Print text of several lines, such as a table.  A line break inside a cell must be an escape already."""
    for line in text.split("\n"):
        tell(line, err)

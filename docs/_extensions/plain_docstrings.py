"""Conversion of docstrings, which are plain text with `names` in back quotes, to reStructuredText."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

QUOTED = re.compile(r"(``[^`]+``|`[^`]+`)")
MARKUP = re.compile(r"([|*\\]|(?<=\w)_(?=\W|$))")


def escaped(line: str) -> str:
    """Return a line with all markup escaped except names in back quotes."""
    if line.lstrip().startswith(">>>") or line.lstrip().startswith("..."):
        return line
    parts = QUOTED.split(line)
    return "".join(
        f"``{part.strip('`')}``" if index % 2 else MARKUP.sub(r"\\\1", part) for index, part in enumerate(parts)
    )


def _process(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    if name.startswith(("evogt_study", "xarray.Dataset.evogt")):
        lines[:] = [escaped(line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Escape markup of reStructuredText in all lines."""
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

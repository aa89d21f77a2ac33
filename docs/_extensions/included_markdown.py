"""Links and formulas of Markdown files that the repository and the site share.

README files are parts of pages by ``include``.  Their links are relative to their own folder: those to a page of the
site lead there, those to a file of the repository give the file to download, and a folder's name stays without a link.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PAPER = DOCS / "joss"
PAGES = {
    "README.md": "/index.md",
    "CONTRIBUTING.md": "/contributing.md",
    "CHANGELOG.md": "/changelog.md",
    "data/README.md": "/reference/result_file.md",
    "studies/README.md": "/tutorials/paper.md",
    "tests/benchmarks/README.md": "/contributing.md",
}
"""Page of the site that includes each file."""

FENCE = re.compile(r"(^ *(`{3,}|:{3,}).*?^ *\2 *$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s]+)\)")
FORMULA = re.compile(r"\$`(.+?)`\$", re.DOTALL)


def adapted(text: str, folder: Path) -> str:
    """Return the text of a Markdown file in `folder` with the links and formulas of the site."""

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        return _link(image, LINK.sub(link, label), target, folder)

    parts = FENCE.split(text)  # text, fence, its marks, text, ...
    return "".join(
        FORMULA.sub(r"$\1$", LINK.sub(link, part)) if index % 3 == 0 else part
        for index, part in enumerate(parts)
        if index % 3 != 2
    )


def _link(image: str, label: str, target: str, folder: Path) -> str:
    path, hash_mark, place = target.partition("#")
    absolute = Path(os.path.normpath((DOCS if path.startswith("/") else folder) / path.lstrip("/")))
    name = absolute.relative_to(ROOT).as_posix()
    if name in PAGES:
        return f"[{label}]({PAGES[name]}{hash_mark}{place})"
    if absolute.is_dir():
        return label
    is_no_page = absolute.suffix == ".md" and (not absolute.is_relative_to(DOCS) or absolute.is_relative_to(PAPER))
    scheme = "path:" if is_no_page else ""  # of a file to download
    return f"{image}[{label}]({scheme}/{os.path.relpath(absolute, DOCS)}{hash_mark}{place})"


def _read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        source[0] = adapted(source[0], path.parent)


def _read_included(app: Sphinx, path: Path, parent: str, source: list[str]) -> None:
    if path.suffix == ".md":
        source[0] = adapted(source[0], (DOCS / path).resolve().parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Adapt pages and included files when Sphinx reads them."""
    app.connect("source-read", _read_page)
    app.connect("include-read", _read_included)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Tutorials with the outputs of their cells: executed once, by the tests or by the build, whichever comes first.

Notebooks are kept without outputs.  What was executed is in ``build/notebooks`` until a cell or the package changes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

if TYPE_CHECKING:  # the tests execute notebooks without Sphinx
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
TUTORIALS = tuple(sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")))
KEPT = ROOT / "build" / "notebooks"
DATA = (ROOT / "data" / "results" / "oscillatory_1d.nc",)
"""Files that a tutorial has beside it."""
SECONDS = 120
"""Time that a cell may take; the longest takes about ten on two busy cores."""

FORGET = "%reset_selective -f ^[^_]"
"""Cell that removes the names of the notebook before, but not those of Python."""


def execute(notebooks: Iterable[Path]) -> None:
    """Execute notebooks one after the other in one kernel, and keep them.  Raises CellExecutionError."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for path in DATA:
            shutil.copy(path, folder)
        manager = KernelManager(kernel_name="python3")
        manager.start_kernel(cwd=folder, extra_arguments=["--log-level=ERROR"])
        try:
            for path in notebooks:
                notebook = nbformat.read(path, as_version=4)
                notebook.cells.insert(0, nbformat.v4.new_code_cell(FORGET))
                client = NotebookClient(notebook, km=manager, timeout=SECONDS)
                client.execute()
                client.kc.stop_channels()
                del notebook.cells[0]
                nbformat.write(notebook, KEPT / path.name)
        finally:
            manager.shutdown_kernel(now=True)


def sources(path: Path) -> list[str]:
    """Cells of a notebook as they were written."""
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def is_current(path: Path) -> bool:
    """Return True where the executed copy of a notebook is of its cells and of this package."""
    kept = KEPT / path.name
    if not kept.exists() or sources(kept) != sources(path):
        return False
    return kept.stat().st_mtime > max(code.stat().st_mtime for code in (ROOT / "evogt_study").rglob("*.py"))


def _execute_missing(app: Sphinx) -> None:
    missing = [path for path in TUTORIALS if not is_current(path)]
    if missing:
        execute(missing)


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".ipynb":
        source[0] = (KEPT / path.name).read_text(encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Execute what is not executed yet, and read the executed notebooks in place of the others."""
    app.connect("builder-inited", _execute_missing)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Tutorials with the outputs of their cells.  The tests or the build execute each tutorial once.

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
"""Files that a tutorial needs in its folder."""
SECONDS = 120
"""Time limit of a cell in seconds.  The longest takes about ten on two busy cores."""

FORGET = "%reset_selective -f ^[^_]"
"""Cell that removes the names of the previous notebook."""


def execute(notebooks: Iterable[Path]) -> None:
    """Execute notebooks in one kernel and store them.  Raises CellExecutionError."""
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
    """Return the sources of the cells of a notebook."""
    return [cell.source for cell in nbformat.read(path, as_version=4).cells]


def is_current(path: Path) -> bool:
    """Return True if the executed copy has the cells of the notebook and the package of today."""
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
    """Execute notebooks that have no output yet, and read the executed copies."""
    app.connect("builder-inited", _execute_missing)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

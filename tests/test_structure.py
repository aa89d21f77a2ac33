"""The tree is its own glossary: every folder lists its modules, and none holds more than can be read at a glance."""

import ast
from pathlib import Path

import pytest

import evogt_study

ROOT = Path(evogt_study.__file__).parent
FOLDERS = sorted(path.parent for path in ROOT.rglob("__init__.py") if path.parent != ROOT)
MOST_MODULES = 15


def listed(folder):
    """Names that the docstring of a folder explains, one a line: - `name`: what it is."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    return [line.split("`")[1] for line in text.splitlines() if line.startswith("- `")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_lists_its_modules(folder):
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    inner = {path.parent.name for path in folder.glob("*/__init__.py")}
    names = listed(folder)
    assert sorted(names) == sorted(modules | inner)
    assert len(modules) <= MOST_MODULES


def test_functions_fit_on_a_screen():
    lengths = {
        f"{path.relative_to(ROOT)}:{node.name}": node.end_lineno - node.lineno + 1
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    ordered = sorted(lengths.values())
    assert {name: length for name, length in lengths.items() if length > 60} == {}
    assert ordered[len(ordered) // 2] <= 6
    assert ordered[len(ordered) * 9 // 10] <= 18

"""The layout can be read at a glance: folders list their modules, and files, folders and functions are few or short."""

import ast
from pathlib import Path

import pytest

import evogt_study

ROOT = Path(evogt_study.__file__).parent
FOLDERS = sorted(path.parent for path in ROOT.rglob("__init__.py") if path.parent != ROOT)
TREES = {path: ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
MOST_FILES, MOST_MODULES, MOST_LINES = 215, 12, 70


def listed(folder):
    """Names that the docstring of a folder explains, one on each line: - `name`: what it is."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    return [line.split("`")[1] for line in text.splitlines() if line.startswith("- `")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_a_folder_lists_its_modules(folder):
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    inner = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert sorted(listed(folder)) == sorted(modules | inner)
    assert len(modules) <= MOST_MODULES


def test_there_are_few_files():
    assert len(list(ROOT.rglob("*.py"))) <= MOST_FILES


def test_no_public_name_is_in_two_modules():
    """Functions and classes; a command has the name of its function."""
    places = {}
    for path, tree in TREES.items():
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
                continue
            if not any(
                "command(" in ast.unparse(each) or "group(" in ast.unparse(each) for each in node.decorator_list
            ):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_functions_fit_on_a_screen():
    """Lines without the docstring, which has a line for each parameter of a public function."""
    lengths = {
        f"{path.relative_to(ROOT)}:{node.name}": node.end_lineno
        - node.lineno
        + 1
        - len((ast.get_docstring(node) or "").splitlines())
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}

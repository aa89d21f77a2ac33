"""Versions of all packages that a result was computed with, in the form of pip's requirements."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from evogt_study.publishing.contents import DepositedStudy

PACKAGE = "evogt-study"
NO_PACKAGES = frozenset({"python", "blas"})
"""What a result records versions of and pip does not install."""


def environment_lock(study: DepositedStudy) -> str:
    """Requirements for pip, with interpreter, processor and linear algebra as comments.

    Packages whose versions the result records have these; what they and the study's own Python depend on has the
    version that is installed here.
    """
    recorded: dict[str, str] = {canonicalize_name(name): version for name, version in study.versions.items()}
    names = _closure({PACKAGE, *_imported_packages(study), *(set(recorded) - NO_PACKAGES)})
    pinned = {name: recorded.get(name) or version for name, version in names.items()}
    facts = {
        "Python": recorded.get("python", "unknown"),
        "BLAS": recorded.get("blas", "unknown"),
        "platform": study.attributes.get("platform", "unknown"),
        "processor": study.attributes.get("cpu", "unknown"),
        "git revision of evogt-study": study.attributes.get("git_revision", "unknown"),
        "recorded by the result": ", ".join(sorted(set(recorded) & set(pinned))),
    }
    lines = [f"# {name}: {fact}" for name, fact in facts.items()]
    if len(study.software) > 1:
        lines += [f"# some runs were computed with: {json.dumps(each, sort_keys=True)}" for each in study.software]
    lines += [f"{name}=={version}" for name, version in sorted(pinned.items())]
    return "\n".join(lines) + "\n"


def _closure(roots: set[str]) -> dict[str, str]:
    """Versions of installed packages and of all that they require, by canonical name; "unknown" ones are left out."""
    found: dict[str, str] = {}
    waiting = sorted(roots)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        try:
            known = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = known.version
        for text in known.requires or ():
            required = Requirement(text)
            # what this interpreter and system need, without extras
            if required.marker is None or required.marker.evaluate({"extra": ""}):
                waiting.append(required.name)
    return found


def _imported_packages(study: DepositedStudy) -> Iterator[str]:
    """Installed packages that the study's own Python imports, as its text says: it is not run."""
    modules = {name for path in study.beside.values() if path.suffix == ".py" for name in _imports(path)}
    modules |= {name.partition(":")[0].partition(".")[0] for name in study.references if ".py:" not in name}
    if modules:
        known = packages_distributions()
        for module in sorted(modules):
            yield from known.get(module, ())


# utf-8-sig: editors of Windows begin a file with a mark that Python's parser refuses in a string
def _imports(path: Path) -> Iterator[str]:
    """First parts of the names of modules that a Python file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8-sig"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        # relative imports are of the study's own files
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]

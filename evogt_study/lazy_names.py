"""Packages whose names are imported when they are first used (PEP 562): any module can import them at its top."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The function ``__getattr__`` of a package: modules, relative to it where they begin with a dot, and their names.

    Type checkers know the names by imports under ``if TYPE_CHECKING``.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], package), name)

    return found

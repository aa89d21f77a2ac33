"""Packages whose names are imported when they are first used (PEP 562): any module can import them at its top."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The function ``__getattr__`` of a package, whose names are in the modules `homes`.

    Type checkers know the names by imports under ``if TYPE_CHECKING``.
    """

    def found(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return found

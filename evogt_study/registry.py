"""Find methods, problems, plots and other objects of installed packages by name.

A `Registry` holds the objects of one group of entry points.  CONTRIBUTING.md lists the groups.  A study file or a
command refers to an object by the name of its entry point.  Another package cannot replace a name of this package.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evogt_study.errors import ParameterError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

K = TypeVar("K")
DISTRIBUTION = "evogt-study"


class Registry(Mapping[str, K], Generic[K]):
    """Mapping from the names of entry points in `group` to their objects, which are imported at their first use.

    Iteration gives the names of this package and of all imported objects.  ``registry[name]`` raises ParameterError for
    an unknown name, and for a class that does not define all abstract methods.  A test or a notebook may add an object
    to `kinds`.
    """

    def __init__(self, parameter: str, group: str) -> None:
        self.parameter, self.group = parameter, group
        self.kinds: dict[str, K] = {}

    def __getitem__(self, name: str) -> K:
        # import another package only if a study uses its object
        if name not in self.kinds:
            entries = [self.own[name]] if name in self.own else list(find_entry_points(group=self.group, name=name))
            if not entries:
                raise ParameterError(self.parameter, self.wanted, name)
            self.kinds[name] = entries[0].load()
        kind = self.kinds[name]
        if missing := ", ".join(sorted(getattr(kind, "__abstractmethods__", ()))):
            raise ParameterError(self.parameter, f"complete; `{name}` is without {missing}", name)
        return kind

    @property
    def own(self) -> Mapping[str, EntryPoint]:
        """Entry points of this package in the group, by name."""
        return read_entry_points().get(self.group, {})

    def list_installed(self) -> list[str]:
        """Return the names of this package, then the names of all other installed packages."""
        return list(dict.fromkeys([*self.own, *(entry.name for entry in find_entry_points(group=self.group))]))

    # `Mapping.__contains__` would import the object
    def __contains__(self, name: object) -> bool:
        known = name in self.kinds or name in self.own
        return known or (isinstance(name, str) and bool(find_entry_points(group=self.group, name=name)))

    def __iter__(self) -> Iterator[str]:
        return iter({**self.own, **self.kinds})

    def __len__(self) -> int:
        return len({**self.own, **self.kinds})

    @property
    def wanted(self) -> str:
        """List of the valid names of this package as text for messages."""
        return f"one of {', '.join(self)}"


@cache  # reading the entry points of all packages takes ten times as long
def read_entry_points() -> Mapping[str, Mapping[str, EntryPoint]]:
    """Return the entry points of this package by group and name."""
    from importlib.metadata import PackageNotFoundError, distribution

    found: dict[str, dict[str, EntryPoint]] = {}
    with suppress(PackageNotFoundError):
        for entry in distribution(DISTRIBUTION).entry_points:
            found.setdefault(entry.group, {})[entry.name] = entry
    return found


# `importlib.metadata` takes 25 ms to import, a third of `evogt --help`
def find_entry_points(group: str, name: str | None = None) -> EntryPoints:
    """Return the entry points of a group in all installed packages, optionally with one name only."""
    from importlib.metadata import entry_points

    return entry_points(group=group) if name is None else entry_points(group=group, name=name)


def make_lazy_import(package: str, file: str) -> Callable[[str], Any]:
    """Return a module function ``__getattr__`` that imports the names which `file` imports for type checkers."""

    @cache
    def read_homes() -> Mapping[str, str]:
        nodes = ast.walk(ast.parse(Path(file).read_text("utf-8")))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        return {alias.name: str(node.module) for node in imports for alias in node.names}

    def import_name(name: str) -> Any:
        home = None if name.startswith("_") else read_homes().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)

    return import_name

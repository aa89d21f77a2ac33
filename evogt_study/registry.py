"""Objects by name: those of this distribution, and those that other packages add, all by entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, Generic, TypeVar

from evogt_study.errors import ParameterError

K = TypeVar("K")
DISTRIBUTION = "evogt-study"


class Registry(Mapping[str, K], Generic[K]):
    """Objects by the names of entry points of `group`; each is imported when it is first used.

    parameter: what a study file calls the name.  kinds: the objects that have been used.  Raises ParameterError for a
    name without an object, and for a type without one of the parts that its base declares.
    """

    def __init__(self, parameter: str, group: str) -> None:
        self.parameter, self.group = parameter, group
        self.kinds: dict[str, K] = {}

    def __getitem__(self, name: str) -> K:
        if name not in self.kinds:
            self.kinds[name] = self._imported(name)
        kind = self.kinds[name]
        if lacking := getattr(kind, "__abstractmethods__", None):
            missing = ", ".join(sorted(lacking))
            raise ParameterError(self.parameter, f"complete; `{name}` is without {missing}", name)
        return kind

    @property
    def own(self) -> Mapping[str, EntryPoint]:
        """Entry points of this distribution."""
        return own_entry_points().get(self.group, {})

    def installed(self) -> list[str]:
        """Return the names of this distribution, then those of all other packages."""
        return list(dict.fromkeys([*self.own, *(entry.name for entry in entry_points(group=self.group))]))

    # imported when it is used: a study that does not use another package's dictionary does not import that package
    def _imported(self, name: str) -> K:
        for entry in [self.own[name]] if name in self.own else entry_points(group=self.group, name=name):
            kind: K = entry.load()
            return kind
        raise ParameterError(self.parameter, self.wanted, name)

    # Mapping's own test would import the object
    def __contains__(self, name: object) -> bool:
        known = name in self.kinds or name in self.own
        return known or (isinstance(name, str) and bool(entry_points(group=self.group, name=name)))

    def __iter__(self) -> Iterator[str]:
        return iter({**self.own, **self.kinds})

    def __len__(self) -> int:
        return len({**self.own, **self.kinds})

    @property
    def wanted(self) -> str:
        """The names of this distribution, for messages."""
        return f"one of {', '.join(self)}"


@cache  # a process reads the file once; a look through all installed packages would take ten times as long
def own_entry_points() -> Mapping[str, Mapping[str, EntryPoint]]:
    """Return the entry points of this distribution by group and name."""
    found: dict[str, dict[str, EntryPoint]] = {}
    try:
        entries: Any = distribution(DISTRIBUTION).entry_points
    except PackageNotFoundError:
        return found
    for entry in entries:
        found.setdefault(entry.group, {})[entry.name] = entry
    return found


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

"""Kinds by name: those of this package, and those that other packages add by entry points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from evogt_study.errors import ParameterError

K = TypeVar("K", bound=type)


class Registry(Mapping[str, K], Generic[K]):
    """Names and the types that they stand for; there is no other way from a name to a type.

    parameter: what a study file calls it.  group: entry points under which an installed package names a type of its
    own.  Such a type, and one whose place "module:type" is given, is imported when it is asked for.  Raises
    ParameterError for a name without a type, and for a type without one of the parts that its base declares.
    """

    def __init__(self, parameter: str, group: str, *kinds: tuple[str, K], **places: str) -> None:
        self.parameter, self.group, self.kinds, self.places = parameter, group, dict(kinds), places

    def __getitem__(self, name: str) -> K:
        if name not in self.kinds:
            self.kinds[name] = self._imported(name)
        kind = self.kinds[name]
        if lacking := getattr(kind, "__abstractmethods__", None):
            missing = ", ".join(sorted(lacking))
            raise ParameterError(self.parameter, f"complete; `{name}` is without {missing}", name)
        return kind

    # looked up by name when it is asked for: other packages' dictionaries are not imported by a study that does not use
    # them
    def _imported(self, name: str) -> K:
        own = [EntryPoint(name, self.places[name], self.group)] if name in self.places else []
        for entry in own or entry_points(group=self.group, name=name):
            kind: K = entry.load()
            return kind
        raise ParameterError(self.parameter, self.wanted, name)

    # not Mapping's own, which would import a type to see whether it is there
    def __contains__(self, name: object) -> bool:
        known = name in self.kinds or name in self.places
        return known or (isinstance(name, str) and bool(entry_points(group=self.group, name=name)))

    def __iter__(self) -> Iterator[str]:
        return iter({**self.places, **self.kinds})

    def __len__(self) -> int:
        return len({**self.places, **self.kinds})

    @property
    def wanted(self) -> str:
        """The names of this package, for messages."""
        return f"one of {', '.join(self)}"

"""Parameters of time integrators: declared by the fields of their types, read from the values of a case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from evogt_study.errors import ParameterError
from evogt_study.numerics.integrators import INTEGRATORS, Integrator
from evogt_study.numerics.integrators.base import number, required
from evogt_study.schema.parameters import Parameter, admitted
from evogt_study.schema.values import Values


def declared(kinds: Iterable[type[Integrator]]) -> dict[str, Parameter]:
    """The parameters that belong to these integrators, by name; which of them are required depends on the case."""
    return {
        part.name: Parameter(part.name, own["wanted"], admitted(own["admits"]), own["symbol"], own["meaning"],
                             optional=True)
        for kind in kinds
        for part in fields(kind)
        for own in [part.metadata or number()]
    }  # fmt: skip


INTEGRATOR_PARAMETERS = declared(INTEGRATORS.values())
"""Those of the integrators of this package."""


def known_parameters() -> dict[str, Parameter]:
    """The parameters of all integrators, those of installed packages among them."""
    _load_installed()
    return declared(INTEGRATORS.kinds.values())


@cache  # once a process: looking through what is installed took 2 to 7 ms
def _load_installed() -> None:
    for entry in entry_points(group=INTEGRATORS.group):
        INTEGRATORS[entry.name]


def own_names(values: Values) -> set[str]:
    """Names of the parameters that belong to the integrator of a case alone; none where it has none."""
    named = values.get("time_integrator")
    return set() if named is None else {part.name for part in fields(INTEGRATORS[str(named)])}


def required_names(values: Values) -> list[str]:
    """Those of them without which it cannot be used."""
    named = values.get("time_integrator")
    return [] if named is None else required(INTEGRATORS[str(named)])


def integrator_of(values: Values) -> Integrator:
    """The integrator that `values` name, with those of them that are its own.  Raises ParameterError."""
    given: dict[str, Any] = {name: values[name] for name in own_names(values) if name in values}
    for name in required_names(values):
        if name not in given:
            raise ParameterError(name, f"given for {values['time_integrator']}", None)
    return INTEGRATORS[str(values["time_integrator"])](**given)

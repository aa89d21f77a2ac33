"""Parameters of time integrators: declared by the fields of their types, read from the values of a case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from functools import cache, lru_cache
from typing import Any

from evogt_study.errors import ParameterError
from evogt_study.pde.integrators import INTEGRATORS, Integrator
from evogt_study.pde.integrators.base import number, parameters_of
from evogt_study.schema.parameters import Parameter, admitted
from evogt_study.schema.values import Value, Values


def parameters_of_integrators(kinds: Iterable[type[Integrator]]) -> dict[str, Parameter]:
    """The parameters that belong to these integrators, by name; the case decides which of them are required."""
    each = [(part.name, part.metadata or number()) for kind in kinds for part in fields(kind)]
    return {
        name: Parameter(
            name,
            own["wanted"],
            own.get("read") or admitted(own["admits"]),
            own["symbol"],
            own["meaning"],
            optional=True,
        )
        for name, own in each
    }


INTEGRATOR_PARAMETERS = parameters_of_integrators(INTEGRATORS.values())
"""Parameters of the integrators of this package."""


def known_parameters() -> dict[str, Parameter]:
    """Those of all integrators, installed packages' among them."""
    _load_installed()
    return parameters_of_integrators(INTEGRATORS.kinds.values())


@cache  # once a process: looking through what is installed took 2 to 7 ms
def _load_installed() -> None:
    for name in INTEGRATORS.installed():
        INTEGRATORS[name]


def own_fields(values: Values) -> tuple[Field[Any], ...]:
    """The parameters of the integrator that a case names; none where it names no integrator."""
    named = values.get("time_integrator")
    return () if named is None else parameters_of(INTEGRATORS[str(named)])


def required_names(values: Values) -> list[str]:
    """Those of them without which it cannot be used."""
    return [part.name for part in own_fields(values) if part.default is MISSING]


def integrator_of(values: Values) -> Integrator:
    """The integrator that a case names, with its parameters.  Raises ParameterError."""
    own, kind = [], INTEGRATORS[str(values["time_integrator"])]
    for part in parameters_of(kind):
        if part.name in values:
            own.append((part.name, values[part.name]))
        elif part.default is MISSING:
            raise ParameterError(part.name, f"given for {values['time_integrator']}", None)
    return _integrator(kind, *own)


@lru_cache(maxsize=64)  # cases of a study have few, and a worker makes one for each of them
def _integrator(kind: Callable[..., Integrator], *own: tuple[str, Value]) -> Integrator:
    return kind(**dict(own))

"""Parameters of the method `evolution` and of the integrators, as a study file names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache, lru_cache
from typing import Any

from evogt_study.errors import ParameterError
from evogt_study.pde.baselines.references import NAMES as REFERENCES
from evogt_study.pde.baselines.stored_solution import StoredSolution, resolved_reference
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.galerkin import coefficient_reference
from evogt_study.pde.integrators import INTEGRATORS, Integrator
from evogt_study.pde.integrators.base import number, parameters_of
from evogt_study.pde.numerics.quadrature import MAX_GAUSS_POINTS, RULES, TRIANGLES, QuadratureRule, Rule, TriangleRule
from evogt_study.schema.parameters import (
    Parameter,
    admitted,
    choice,
    declared,
    declared_in,
    integer,
    key_of,
    one_or_several,
    real,
    several,
)
from evogt_study.schema.values import Value, Values

MAX_POINTS = 100_000
"""Points per direction of a quadrature rule, which one-dimensional validation may need; domains bound all nodes."""
_RULE = (
    f"a number of Gauss-Legendre points, at most {MAX_GAUSS_POINTS}, "
    'or off boxes { rule = "triangles", refinements = n, degree = m }, '
    'or { rule = "gauss_legendre" or "composite_midpoint", points = n }, '
    f"n at most {MAX_POINTS:,}"
)


def quadrature_rule(raw: Any) -> Value:
    """A number of Gauss-Legendre points, or a table ``{ rule = "...", points = n }``; both per direction."""
    if isinstance(raw, (QuadratureRule, TriangleRule)):
        return raw
    if isinstance(raw, dict) and raw.get("rule") == TRIANGLES:
        if set(raw) != {"rule", "refinements", "degree"}:
            raise ValueError
        return TriangleRule(raw["refinements"], raw["degree"])
    if isinstance(raw, dict):
        if set(raw) != {"rule", "points"} or raw["rule"] not in RULES:
            raise ValueError
        rule, points = raw["rule"], raw["points"]
    else:
        rule, points = "gauss_legendre", raw
    count = integer(1, MAX_POINTS)(points)
    if not isinstance(count, int):
        raise ValueError
    return QuadratureRule(rule, count)


def _reference(raw: Any) -> Value:
    """A name, or the parts of a stored run, which the reader of a study takes from its file.

    A user function is only named; the method has its code.
    """
    if isinstance(raw, str) and ":" in raw:
        return raw
    if isinstance(raw, StoredSolution):
        return raw
    if isinstance(raw, dict) and set(raw) == {"times", "coefficients", "attributes"}:
        return StoredSolution(**raw)
    return choice(REFERENCES)(raw)


@dataclass(frozen=True, kw_only=True)
class EvolutionParameters:
    """Parameters of a case of the method, except those of its integrator and problem."""

    dictionary: str = declared(
        FAMILIES.wanted, choice(FAMILIES), "dictionary of prescribed features", short="dictionary"
    )
    seed: int = declared("an integer >= 0", integer(0), "seed of the dictionary's random draws")
    N: int = declared("an integer >= 1", integer(1), "number of output features N")
    N1: int | None = declared(
        "an integer >= 1", integer(1), "width of the first hidden layer N_1", "used by gtransnet only", optional=True
    )
    hidden: tuple[int, ...] | None = declared(
        "a list of integers >= 1",
        several(integer(1)),
        "widths of the hidden layers before the last",
        "used by gtransnet only",
        optional=True,
    )
    gamma: float | tuple[float, ...] | None = declared(
        "a positive number, or a list with one for each first-layer neuron",
        one_or_several(real(0.0)),
        "γ",
        "shape parameter of the first layer, eq:trans_feature",
        optional=True,
    )
    # default: the paper's (eq:variance_control)
    delta: float = declared(
        "in (0, 1]",
        real(0.0, 1.0, high_included=True),
        "δ",
        "variance of further layers' weights times width, eq:variance_control",
        default=0.5,
    )
    radius: float | None = declared(
        "a positive number", real(0.0), "R", "radius of the ball that holds the domain", optional=True
    )
    centre: float | tuple[float, ...] = declared(
        "a number, or a list with one for each direction",
        one_or_several(real()),
        "x_c",
        "centre of the ball that holds the domain",
        default=0.5,
    )
    # By default 1e-12: 1e-8 discards useful directions (error 2.2e-2 instead of 4.5e-4, tab:tau_diag).  1e-14 gains a
    # factor of four at ten times the identity-mass defect.
    tau: float = declared(
        "in (0, 1)",
        real(0.0, 1.0),
        "τ",
        "eigenvalue threshold of the retained space, app:threshold",
        remedy="use e.g. 1e-12",
        default=1e-12,
    )
    quadrature: Rule = declared(_RULE, quadrature_rule, "assembly rule", "points per direction")
    validation: Rule = declared(_RULE, quadrature_rule, "validation rule", "points per direction")
    dt: float = declared("a positive number", real(0.0), "Δt", "time step, eq:im_retained")
    final_time: float = declared("a positive number", real(0.0), "T", "final time")
    time_integrator: str = declared(
        INTEGRATORS.wanted, key_of(INTEGRATORS), "time integrator", default="implicit_midpoint"
    )
    reference: str | StoredSolution | None = declared(
        f"one of {', '.join(REFERENCES)}, file.py:function, or the file.nc of one run",
        _reference,
        "what errors are measured against",
        "the problem's exact solution where left out",
        optional=True,
        resolve=resolved_reference,
        takes_code=True,
    )
    reference_points: int | None = declared(
        "an integer >= 1",
        integer(1),
        "interior points per direction of the reference",
        "of finite_elements its cells per direction, or refinements of the triangles",
        optional=True,
    )
    reference_dt: float | None = declared(
        "a positive number",
        real(0.0),
        "time step of the reference",
        "dt where left out, an eighth of it for refined",
        optional=True,
    )
    assessment: Rule | None = declared(
        _RULE, quadrature_rule, "cross-grid assessment rule", "points per direction, app:cross_grid", optional=True
    )
    coefficient_reference: str | None = declared(
        f"one of {', '.join(coefficient_reference.NAMES)}",
        choice(coefficient_reference.NAMES),
        "reference of the final coefficients",
        "tab:temporal_convergence",
        optional=True,
    )
    coefficient_rtol: float | None = declared(
        # SciPy raises a smaller rtol to 100 machine epsilons, with a warning: the value would not be what was computed
        "in [2.3e-14, 1)",
        real(2.3e-14, 1.0, low_included=True),
        "relative tolerance of dop853",
        optional=True,
    )
    coefficient_atol: float | None = declared(
        "a positive number", real(0.0), "absolute tolerance of dop853", optional=True
    )
    coefficient_max_step: float | None = declared(
        "a positive number", real(0.0), "largest step of dop853", optional=True
    )


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


# Behind `time_integrator`, which decides about them, as a reader of a result's coordinates expects.
def with_integrators(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Parameters with those of this package's integrators behind `time_integrator`."""
    found: dict[str, Parameter] = {}
    for name, parameter in parameters.items():
        found[name] = parameter
        if name == "time_integrator":
            found |= INTEGRATOR_PARAMETERS
    return found


PARAMETERS = with_integrators(declared_in(EvolutionParameters))
"""Parameters of `evolution` by name."""


def known_parameters() -> dict[str, Parameter]:
    """Parameters of all integrators, also of installed packages."""
    _load_installed()
    return parameters_of_integrators(INTEGRATORS.kinds.values())


@cache  # once in a process: a search of the installed packages takes 2 to 7 ms
def _load_installed() -> None:
    for name in INTEGRATORS.installed():
        INTEGRATORS[name]


def own_fields(values: Values) -> tuple[Field[Any], ...]:
    """The parameters of the integrator that a case names; none where it names no integrator."""
    named = values.get("time_integrator")
    return () if named is None else parameters_of(INTEGRATORS[str(named)])


def required_names(values: Values) -> list[str]:
    """Names of the parameters that the integrator of a case requires."""
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

"""Parameters of the method `evolution`, and of dictionaries and integrators, as a study file names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from evogt_study.errors import ParameterError, StudyError
from evogt_study.pde.baselines.references import NAMES as REFERENCES
from evogt_study.pde.baselines.references import StoredSolution, resolve_reference
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.galerkin.retained_space import DECOMPOSITIONS
from evogt_study.pde.galerkin.validation import COEFFICIENT_REFERENCES
from evogt_study.pde.integrators import INTEGRATORS, Integrator
from evogt_study.pde.numerics import MAX_GAUSS_POINTS, RULES, TRIANGLES, QuadratureRule, Rule, TriangleRule
from evogt_study.schema.parameters import (
    Parameter,
    Parametrised,
    choice,
    declared_parameters,
    integer,
    parameter_field,
    real,
    registry_key,
)
from evogt_study.schema.values import Value, Values

_MAX_POINTS = 100_000
"""Points per direction of a quadrature rule.  Domains bound the number of all nodes."""
_RULE = (
    f"a number of Gauss-Legendre points, at most {MAX_GAUSS_POINTS}, "
    'or off boxes { rule = "triangles", refinements = n, degree = m }, '
    'or { rule = "gauss_legendre" or "composite_midpoint", points = n }, '
    f"n at most {_MAX_POINTS:,}"
)


def quadrature_rule(raw: Any) -> Value:
    """Read a number of Gauss-Legendre points, or a table ``{ rule = "...", points = n }``, per direction."""
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
    count = integer(1, _MAX_POINTS)(points)
    if not isinstance(count, int):
        raise ValueError
    return QuadratureRule(rule, count)


def _read_reference(raw: Any) -> Value:
    """Read a name, or the parts of a stored run.

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
    """Parameters of a case of the method, except the parameters of its dictionary, integrator and problem."""

    dictionary: str = parameter_field(
        FAMILIES.wanted, registry_key(FAMILIES), "dictionary of prescribed features", short="dictionary", kinds=FAMILIES
    )
    seed: int = parameter_field("an integer >= 0", integer(0), "seed of the dictionary's random draws")
    # By default 1e-12: 1e-8 discards useful directions (error 2.2e-2 instead of 4.5e-4, tab:tau_diag).  1e-14 gains a
    # factor of four at ten times the identity-mass defect.
    tau: float = parameter_field(
        "in (0, 1)", real(0.0, 1.0), "τ", "eigenvalue threshold of the retained space, app:threshold",
        remedy="use e.g. 1e-12", default=1e-12,
    )  # fmt: skip
    decomposition: str | None = parameter_field(
        f"one of {', '.join(DECOMPOSITIONS)}", choice(tuple(DECOMPOSITIONS)), "directions of the retained space",
        "SVD of the weighted features, or eigenvalues of the mass matrix, eq:eig_phi; svd if left out", optional=True,
    )  # fmt: skip
    quadrature: Rule = parameter_field(_RULE, quadrature_rule, "assembly rule", "points per direction")
    validation: Rule = parameter_field(_RULE, quadrature_rule, "validation rule", "points per direction")
    dt: float = parameter_field("a positive number", real(0.0), "Δt", "time step, eq:im_retained")
    final_time: float = parameter_field("a positive number", real(0.0), "T", "final time")
    time_integrator: str = parameter_field(
        INTEGRATORS.wanted, registry_key(INTEGRATORS), "time integrator", default="implicit_midpoint", kinds=INTEGRATORS
    )
    reference: str | StoredSolution | None = parameter_field(
        f"one of {', '.join(REFERENCES)}, file.py:function, or the file.nc of one run", _read_reference,
        "what errors are measured against", "the problem's exact solution where left out", optional=True,
        resolve=resolve_reference, takes_code=True,
    )  # fmt: skip
    reference_points: int | None = parameter_field(
        "an integer >= 1", integer(1), "interior points per direction of the reference",
        "of finite_elements its cells per direction, or refinements of the triangles", optional=True,
    )  # fmt: skip
    reference_dt: float | None = parameter_field(
        "a positive number", real(0.0), "time step of the reference",
        "if left out dt/8, and dt/2 for finite_elements", optional=True,
    )  # fmt: skip
    assessment: Rule | None = parameter_field(
        _RULE, quadrature_rule, "cross-grid assessment rule", "points per direction, app:cross_grid", optional=True
    )
    coefficient_reference: str | None = parameter_field(
        f"one of {', '.join(COEFFICIENT_REFERENCES)}", choice(COEFFICIENT_REFERENCES),
        "reference of the final coefficients", "tab:temporal_convergence", optional=True,
    )  # fmt: skip
    coefficient_rtol: float | None = parameter_field(
        # SciPy raises a smaller rtol to 100 machine epsilons, with a warning: the value would not be what was computed
        "in [2.3e-14, 1)",
        real(2.3e-14, 1.0, low_included=True),
        "relative tolerance of dop853",
        optional=True,
    )
    coefficient_atol: float | None = parameter_field(
        "a positive number", real(0.0), "absolute tolerance of dop853", optional=True
    )
    coefficient_max_step: float | None = parameter_field(
        "a positive number", real(0.0), "largest step of dop853", optional=True
    )


# Behind the name, which decides about them, as a reader of a result's coordinates expects.
def with_kinds(parameters: Mapping[str, Parameter], named: Iterable[tuple[str, str, int]] = ()) -> dict[str, Parameter]:
    """Return the parameters of a method with the parameters of its dictionaries and integrators behind their names.

    The dictionaries and integrators are all of this distribution, and of other packages those in `named`
    (`MethodSpec.kinds`).  A case has values for the parameters of its own dictionary and integrator only.

    Raises StudyError if two classes declare one parameter differently.
    """
    found: dict[str, Parameter] = {}
    owners: dict[str, type[Parametrised]] = {}
    chosen = tuple(named)
    for name, parameter in parameters.items():
        found[name] = parameter
        if parameter.kinds is not None:
            for each in dict.fromkeys([*parameter.kinds.own, *(each for of, each, _ in chosen if of == name)]):
                kind = parameter.kinds[each]
                for own, declaration in kind.parameters().items():
                    found[own] = _join_declarations(declaration, found.get(own), kind, owners.setdefault(own, kind))
    for own in owners.keys() & parameters.keys():
        raise StudyError(
            f"`{own}` of {owners[own].__name__} must have another name, since the method has this parameter"
        )
    return found


def _join_declarations(
    declaration: Parameter, known: Parameter | None, kind: type[Parametrised], owner: type[Parametrised]
) -> Parameter:
    """Return the declaration for all classes that have the parameter, with their common default."""
    known = known or declaration
    if replace(declaration, default=None, optional=True) != replace(known, default=None, optional=True):
        first, second = owner.__name__, kind.__name__
        raise StudyError(
            f"`{known.name}` must have one declaration, got {known.wanted} in {first} and {declaration.wanted} in "
            f'{second}. Write `{known.name}: ... = same_as({first}, "{known.name}")`, or rename one of them.'
        )
    return replace(known, default=known.default if known.default == declaration.default else None, optional=True)


PARAMETERS = with_kinds(declared_parameters(EvolutionParameters))
"""Parameters of `evolution` by name."""


def list_kinds(parameters: Mapping[str, Parameter], values: Values) -> list[type[Parametrised]]:
    """Return the dictionary and the integrator that a case names."""
    names = [name for name, parameter in parameters.items() if parameter.kinds is not None and name in values]
    return [parameters[name].kinds[str(values[name])] for name in names]  # type: ignore[index]  # they have kinds


def make_integrator(values: Values) -> Integrator:
    """Return the integrator of a case with its parameters.  Raises ParameterError."""
    name = str(values["time_integrator"])
    kind = INTEGRATORS[name]
    return _make_integrator(kind, name, *[(own, values[own]) for own in kind.parameters() if own in values])


@lru_cache(maxsize=64)  # cases of a study have few, and a worker makes one for each of them
def _make_integrator(kind: type[Integrator], name: str, *own: tuple[str, Value]) -> Integrator:
    given = dict(own)
    for missing in kind.list_required_parameters(given):
        if missing not in given:
            raise ParameterError(missing, f"given for {name}", None)
    return kind(**given)

"""The parameters of the method `evolution`, as a study file names them."""

from __future__ import annotations

from typing import Any

from evogt_study.methods.integrator_parameters import INTEGRATOR_PARAMETERS
from evogt_study.numerics import coefficient_reference
from evogt_study.numerics.dictionaries import FAMILIES
from evogt_study.numerics.integrators import INTEGRATORS
from evogt_study.numerics.quadrature import MAX_GAUSS_POINTS, RULES, QuadratureRule
from evogt_study.schema.parameters import (
    Parameter,
    choice,
    integer,
    key_of,
    one_or_several,
    real,
    several,
)
from evogt_study.schema.values import Value

MAX_POINTS = 100_000
"""Points per direction of a quadrature rule."""


def quadrature_rule(raw: Any) -> Value:
    """A number of Gauss-Legendre points, or a table ``{ rule = "...", points = n }``; both per direction."""
    if isinstance(raw, QuadratureRule):
        return raw
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


REFERENCES = ("exact", "finite_difference")

_RULE = (
    f"a number of Gauss-Legendre points, at most {MAX_GAUSS_POINTS}, "
    'or { rule = "gauss_legendre" or "composite_midpoint", points = n }, '
    f"n at most {MAX_POINTS:,}"
)
PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        Parameter("dictionary", FAMILIES.wanted, choice(FAMILIES), "dictionary of prescribed features"),
        Parameter("seed", "an integer >= 0", integer(0), "seed of the dictionary's random draws"),
        Parameter("N", "an integer >= 1", integer(1), "number of output features N"),
        Parameter("N1", "an integer >= 1", integer(1), "width of the first hidden layer N_1",
                  "used by gtransnet only", optional=True),
        Parameter("hidden", "a list of integers >= 1", several(integer(1)),
                  "widths of the hidden layers before the last", "used by gtransnet only", optional=True),
        Parameter("gamma", "a positive number, or a list with one for each first-layer neuron",
                  one_or_several(real(0.0)), "γ", "shape parameter of the first layer, eq:trans_feature",
                  optional=True),
        Parameter("delta", "in (0, 1]", real(0.0, 1.0, high_included=True), "δ",
                  "variance of further layers' weights times width, eq:variance_control", default=0.5),
        Parameter("radius", "a positive number", real(0.0), "R", "radius of the ball that holds the domain",
                  optional=True),
        Parameter("centre", "a number, or a list with one for each direction", one_or_several(real()), "x_c",
                  "centre of the ball that holds the domain", default=0.5),
        Parameter("tau", "in (0, 1)", real(0.0, 1.0), "τ", "eigenvalue threshold of the retained space, app:threshold",
                  remedy="use e.g. 1e-12", default=1e-12),
        Parameter("quadrature", _RULE, quadrature_rule, "assembly rule", "points per direction"),
        Parameter("validation", _RULE, quadrature_rule, "validation rule", "points per direction"),
        Parameter("dt", "a positive number", real(0.0), "Δt", "time step, eq:im_retained"),
        Parameter("final_time", "a positive number", real(0.0), "T", "final time"),
        Parameter("time_integrator", INTEGRATORS.wanted, key_of(INTEGRATORS), "time integrator",
                  default="implicit_midpoint"),
        *INTEGRATOR_PARAMETERS.values(),
        Parameter("reference", f"one of {', '.join(REFERENCES)}", choice(REFERENCES),
                  "what errors are measured against", "the problem's exact solution where left out", optional=True),
        Parameter("reference_points", "an integer >= 1", integer(1), "interior points per direction of the reference",
                  "used by finite_difference only", optional=True),
        Parameter("reference_dt", "a positive number", real(0.0), "time step of the reference", "dt where left out",
                  optional=True),
        Parameter("assessment", _RULE, quadrature_rule, "cross-grid assessment rule",
                  "points per direction, app:cross_grid", optional=True),
        Parameter("coefficient_reference", f"one of {', '.join(coefficient_reference.NAMES)}",
                  choice(coefficient_reference.NAMES), "reference of the final coefficients",
                  "tab:temporal_convergence", optional=True),
        Parameter("coefficient_rtol", "in [2.3e-14, 1)", real(2.3e-14, 1.0, low_included=True),
                  "relative tolerance of dop853", optional=True),
        Parameter("coefficient_atol", "a positive number", real(0.0), "absolute tolerance of dop853", optional=True),
        Parameter("coefficient_max_step", "a positive number", real(0.0), "largest step of dop853", optional=True),
    )
}  # fmt: skip

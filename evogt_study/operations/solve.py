"""One run, labelled: the method's pipeline on arrays, with its result as a Dataset of the same schema as a study's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from evogt_study.baselines.references import FunctionReference, reference_of
from evogt_study.baselines.stored_solution import feature_coefficients, what_to_store
from evogt_study.errors import DivergedError, ParameterError
from evogt_study.methods.evolution_parameters import PARAMETERS
from evogt_study.methods.integrator_parameters import declared, integrator_of
from evogt_study.methods.problem_source import formula_parameter
from evogt_study.methods.recordable import check_norms, fields, histories, scalars
from evogt_study.methods.user_code import PythonFile
from evogt_study.numerics.coefficient_reference import CoefficientReference
from evogt_study.numerics.dictionaries.base import Dictionary
from evogt_study.numerics.integrators import Integrator
from evogt_study.numerics.pipeline import Discretisation, Reference, Solution
from evogt_study.numerics.pipeline import solve as solve_arrays
from evogt_study.numerics.problem import Problem
from evogt_study.numerics.problem_checks import check_data
from evogt_study.numerics.quadrature import QuadratureRule, TriangleRule
from evogt_study.numerics.time_grid import TimeGrid
from evogt_study.operations.evaluate import stored_solution
from evogt_study.schema.doubts import warn_of_doubts
from evogt_study.schema.records import Datum
from evogt_study.schema.values import labels
from evogt_study.schema.variables import COORDINATES, MEASURED

Rule = int | dict[str, Any] | QuadratureRule | TriangleRule

DEFAULT_VALIDATION = {
    1: QuadratureRule("composite_midpoint", 4096),
    2: QuadratureRule("gauss_legendre", 64),
    3: QuadratureRule("gauss_legendre", 22),
}
"""The paper's usual validation rules (tab:experiment_overview)."""


def solve(
    problem: Problem,
    dictionary: Dictionary,
    seed: int,
    *,
    quadrature: Rule,
    dt: float,
    tau: float = 1e-12,
    final_time: float | None = None,
    validation: Rule | None = None,
    times: int | tuple[float, ...] | None = None,
    time_integrator: str | Integrator = "implicit_midpoint",
    stabilization: float = 0.0,
    reference: str | Path | Reference | None = None,
    reference_points: int | None = None,
    reference_dt: float | None = None,
    assessment: Rule | None = None,
    coefficient_reference: str | CoefficientReference | None = None,
    norms: Collection[str] = (),
    field: int | None = None,
) -> xr.Dataset:
    """Solve `problem` in the retained space of one sampled dictionary (Algorithm 1) and label what is measured.

    quadrature, validation: points per direction of a Gauss-Legendre rule, or ``{"rule": ..., "points": ...}``;
    validation defaults to the paper's rule for the dimension.  final_time defaults to the problem's own.  times are the
    saved ones: None for every step, a count of evenly spaced ones, or a list.  time_integrator is a name or an
    `Integrator` with its parameters; stabilization is S of stabilized_semi_implicit where that is named, which a
    problem with a potential needs.

    reference is what errors are measured against, as in a study file ("finite_elements", "refined", "other.nc", ...),
    or a `evogt_study.numerics.pipeline.Reference`; the exact solution where it is left out.  assessment: a rule for
    cross-grid defects; coefficient_reference: as in a study file.  norms: of the error, beside the relative L2 norm:
    error_absolute, error_max, error_h1, error_max_over_time.  field: points per direction of a grid on which the
    solution is given too.  What is returned can be evaluated anywhere by `evogt_study.evaluate`.

    The Dataset has the scalars and histories of a study's result, the coefficients (time, mode) and the singular values
    (feature).  ``.attrs`` name the problem and the dictionary.  Gives a `evogt_study.errors.DoubtWarning` where the
    assembly rule is too coarse for the features, or the dictionary's ball does not hold the domain.

    Raises ParameterError for a value outside its range, ProblemError for data the method does not admit, and the
    errors of a run (`evogt_study.errors.RunError`).
    """
    final_time = problem.final_time if final_time is None else final_time
    if final_time is None:
        raise ParameterError("final_time", "given, since the problem names none", None)
    if not isinstance(time_integrator, Integrator):
        time_integrator = integrator_of({"time_integrator": time_integrator, "stabilization": stabilization})
    if isinstance(coefficient_reference, str):
        coefficient_reference = CoefficientReference(coefficient_reference)
    run = Discretisation(
        dictionary=dictionary,
        seed=_checked("seed", seed),
        tau=_checked("tau", tau),
        quadrature=_checked("quadrature", quadrature),
        validation=_validation(problem) if validation is None else _checked("validation", validation),
        grid=TimeGrid.of(_checked("final_time", final_time), _checked("dt", dt), times),
        integrator=time_integrator,
        assessment=None if assessment is None else _checked("assessment", assessment),
        coefficient_reference=coefficient_reference,
    )
    dictionary.check_dimension(problem.domain.feature_dimension)
    check_data(problem, run.grid.final_time)
    check_norms(problem, norms)
    if coefficient_reference is not None:
        coefficient_reference.check(problem)
    if isinstance(reference, (str, Path)):
        reference = _named_reference(str(reference), problem, run, reference_points, reference_dt)
    with np.errstate(all="ignore"):  # what is not finite is refused below
        solution = solve_arrays(problem, run, reference=reference, norms=norms)
        if not np.isfinite(solution.trajectory.coefficients).all():
            raise DivergedError("the coefficients are not finite at all saved times")
        data = labelled(solution, field)
    warn_of_doubts(data)
    return data


def _named_reference(
    name: str, problem: Problem, run: Discretisation, points: int | None, dt: float | None
) -> Reference | None:
    """The reference that a name, a file of one run, or ``file.py:function`` means."""
    if name.endswith(".nc"):
        return stored_solution(name)
    if ".py:" in name:
        file = PythonFile.named(name, Path())
        return FunctionReference(file.load(), (file.content, file.attribute))
    return reference_of(name, problem, run, points, dt)


def _validation(problem: Problem) -> QuadratureRule | TriangleRule:
    """The paper's rule, or on another domain than a box one of many triangles."""
    boxed = isinstance(problem.domain.usual_rule, QuadratureRule)
    return DEFAULT_VALIDATION[problem.dimension] if boxed else TriangleRule(4, 8)


def _checked(name: str, raw: Any) -> Any:
    return PARAMETERS[name].value(raw)


def labelled(solution: Solution, field: int | None = None) -> xr.Dataset:
    """A solution as a Dataset with the names, labels and attributes of a study's result.

    field: points per direction of the grid on which the solution is given too.
    """
    wanted = (
        "error_history",
        "energy_history",
        "norm_history",
        "free_energy_history",
        "coefficients",
        "reference_coefficients",
        "singular_values",
    )
    measured, coordinates = {**scalars(solution), **histories(solution, wanted)}, _coordinates(solution)
    measured["feature_coefficients"] = Datum(("time", "feature"), feature_coefficients(solution))
    if field is not None:
        grid = solution.discretisation.grid
        shown, axes = fields(
            lambda nodes: solution.evaluate(nodes)[grid.saved_positions], solution.problem, grid.saved_times, field
        )
        measured |= shown
        coordinates |= {name: (name, along.values, COORDINATES[name]) for name, along in axes.items()}
    data: dict[str, Any] = {
        name: (datum.dims, datum.values, MEASURED[name].attributes) for name, datum in measured.items()
    }
    return xr.Dataset(data, coordinates, {**what_to_store(solution), "title": "one run"})


def _coordinates(solution: Solution) -> dict[str, Any]:
    """Dimensions of the variables, and every parameter of the run as a scalar coordinate."""
    run = solution.discretisation
    dictionary = run.dictionary
    parameters: dict[str, Any] = {
        "dictionary": dictionary.family, "seed": run.seed, **dictionary.labels(solution.problem.dimension),
        "tau": run.tau, "quadrature": run.quadrature, "validation": run.validation, "assessment": run.assessment,
        "final_time": run.grid.final_time, "dt": run.grid.dt, "time_integrator": run.integrator.name,
        **{part.name: getattr(run.integrator, part.name) for part in fields_of(run.integrator)},
    }  # fmt: skip
    shown = {name: labels([value])[0] for name, value in parameters.items() if value is not None}
    known = PARAMETERS | declared([type(run.integrator)])
    constants = {name: ((), label, known[name].attributes(label)) for name, label in shown.items()}
    own = {
        name: ((), value, formula_parameter(name).attributes(value))
        for name, value in solution.problem.parameters.items()
        if name not in constants
    }
    return {
        "time": ("time", run.grid.saved_times, COORDINATES["time"]),
        "mode": ("mode", np.arange(solution.space.rank), COORDINATES["mode"]),
        "feature": ("feature", np.arange(dictionary.N), COORDINATES["feature"]),
        **constants,
        **own,
    }

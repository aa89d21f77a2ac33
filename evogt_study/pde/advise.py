"""Advice on the error of a study: the parts of the error, the best change, and its predicted and measured gain."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from evogt_study.errors import InputError
from evogt_study.methods.code import Output
from evogt_study.methods.loading import load_method
from evogt_study.pde.certificates.certify import BUDGET, compute_retained_error, evaluate_final
from evogt_study.pde.methods.evolution import share_reference
from evogt_study.pde.methods.problem_method import ProblemMethod
from evogt_study.pde.numerics import QuadratureRule
from evogt_study.pde.pipeline import Share
from evogt_study.pde.problems.fields import FieldProblem
from evogt_study.schema.values import Value, Values
from evogt_study.study.study import Study
from evogt_study.workers.batch import BoundedStageCache

MIN_TAU = 1e-15
"""Smallest threshold that the advice proposes.  Directions below it are rounding errors."""
_POINTS_FACTOR = 1.5
"""Factor by which the advice increases the points per direction of the assembly rule."""
NEEDS_LINEAR = "`evogt advise` needs a linear problem with one field. Use `reference` for errors of other problems ({})"


@dataclass(frozen=True)
class Advice:
    """Advice for one run: its setup, its error, the parts of the error, the best change, and the error after it."""

    at: Values
    error: float
    parts: Mapping[str, float]
    change: Values
    predicted: float
    measured: float | None


def advise(study: Study, n_setups: int, check: bool) -> Iterator[Advice]:
    """Yield advice for at most `n_setups` setups with the first seed, and run the best change if `check` is True."""
    if study.spec.method != "evolution":
        name = getattr(study.spec.method, "reference", study.spec.method)
        raise InputError(f"`evogt advise` needs a study of the PDE solver, got the method {name} ({study.file})")
    if isinstance(study.spec.problem, FieldProblem):
        raise InputError(NEEDS_LINEAR.format(study.file))
    method: Any = load_method(replace(study.spec, output=Output(record=BUDGET)))
    *_, space = study.iterate_provisional_spaces()
    # evenly spaced setups over all axes except the seed
    axes = (replace(axis, values=axis.values[:1]) if axis.name == "seed" else axis for axis in space.axes)
    narrowed = replace(space, axes=tuple(axes))
    points = [(at, values) for at in range(narrowed.size) if (values := narrowed.values(at)) is not None]
    for place in np.unique(np.linspace(0, len(points) - 1, min(n_setups, len(points))).round().astype(int)):
        number, values = points[place]
        positions = zip(narrowed.axes, np.unravel_index(number, narrowed.shape), strict=True)
        at = {axis.name: axis.values[int(i)] for axis, i in positions if axis.name != "seed"}
        if not method.make_problem(values).is_linear:
            raise InputError(NEEDS_LINEAR.format(study.file))
        share, case = BoundedStageCache(), method.bind(values)
        numbers, given, rule = _read_numbers(case, share), case.given, case.discretisation.quadrature
        # more features, half of the step, a finer rule, a smaller threshold
        wider: dict[str, Value] = {"N": 2 * case.dictionary.N}
        if isinstance(N1 := values.get("N1"), int) and "N1" in case.dictionary.parameters():
            wider["N1"] = 2 * N1
        changes: dict[str, Values] = {"N": wider, "dt": {"dt": given.dt / 2.0}}
        if isinstance(rule, QuadratureRule):
            changes["quadrature"] = {"quadrature": replace(rule, points=int(_POINTS_FACTOR * rule.points))}
        if given.tau > MIN_TAU:
            changes["tau"] = {"tau": max(given.tau / 100.0, MIN_TAU)}
        predictions = _predict_errors(method, values, changes, numbers, share)
        best = min(predictions, key=lambda name: predictions[name])
        measured = _read_numbers(method.bind({**values, **changes[best]}), share)["error"] if check else None
        parts = {name: numbers[name] for name in BUDGET}
        yield Advice(at, numbers["error"], parts, changes[best], predictions[best], measured)


def _read_numbers(case: Any, share: Share) -> dict[str, float]:
    """Return the scalars of a run, and `error` from the parts of the error if the run has no exact solution."""
    record = case.run(share).variables
    numbers = {name: float(datum.values) for name, datum in record.items() if not datum.dims}
    whole = np.sqrt(numbers["error_retained"] ** 2 + numbers["error_evolution"] ** 2 + numbers["error_time"] ** 2)
    return {"error": float(whole), **numbers}


def _predict_errors(
    method: ProblemMethod, values: Values, changes: Mapping[str, Values], numbers: Mapping[str, float], share: Share
) -> dict[str, float]:
    """Predict the error after each change by projections of the solution and by the order of the integrator."""
    case = method.bind(values)
    problem, final_time = method.share_problem(values, share), case.discretisation.grid.final_time
    # the stage cache has the reference of the run
    identity = method.hash_problem(values)
    reference = None if problem.exact is not None else share_reference(problem, final_time, share, identity)
    known = partial(evaluate_final, problem, final_time, reference)
    # at most the error, since the code below subtracts the squares
    error, time = numbers["error"], min(numbers["error_time"], numbers["error"])
    before = compute_retained_error(problem, case.discretisation, known)
    predictions = {}
    for name, change in changes.items():
        if name == "dt":
            # With half the step, the error of the time steps falls by 2^-order and its square by 4^-order.
            predictions[name] = float(np.sqrt(error**2 - time**2 * (1.0 - 4.0**-case.integrator.ORDER)))
            continue
        after = compute_retained_error(problem, method.bind({**values, **change}).discretisation, known)
        predictions[name] = float(np.sqrt((error**2 - time**2) * (after / before) ** 2 + time**2))
    return predictions

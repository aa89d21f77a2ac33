"""Compute solutions that replace an unknown exact solution in errors, by their names in a study file.

A stored solution has the coefficients of its features: u(x, t) = u_b(x, t) + D(x) psi(x) . c(t) with c = T_r alpha.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError, ProblemError, ResultError, shorten
from evogt_study.methods.code import UserCode
from evogt_study.pde.baselines.finite_difference import (
    check_differences,
    extrapolate_differences,
    solve_differences,
)
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.domains import Domain, describe_domain, make_domain
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.system import evaluate_trial
from evogt_study.pde.numerics import (
    MAX_GAUSS_POINTS,
    MAX_NODES,
    Array,
    Labelled,
    QuadratureRule,
    TimeGrid,
    TriangleRule,
)
from evogt_study.pde.pipeline import Discretisation, Reference, solve_arrays
from evogt_study.pde.problems.expressions import make_space_time_function
from evogt_study.pde.problems.terms import parse_term
from evogt_study.schema.values import dump_canonical
from evogt_study.storage.arrays import load_or_compute
from evogt_study.storage.hdf5 import HDF5_LOCK

EXACT, DIFFERENCES, ELEMENTS, REFINED = "exact", "finite_difference", "finite_elements", "refined"
NAMES = (EXACT, DIFFERENCES, ELEMENTS, REFINED)
BY_POINTS = (DIFFERENCES, ELEMENTS)
"""Names of the references that need `reference_points`."""
STEPS_PER_STEP = {DIFFERENCES: 8, ELEMENTS: 2}
"""Number of steps of the reference per step of the run, by the name of the reference."""
_SEED = 1_000_003
"""Seed of the features of a refined reference.  No study uses this seed."""
FEATURE_FACTORS, _STEP_FACTORS = (3, 2), (8, 4)
"""Factors of the numbers of features and steps, for the refined reference and for its coarser version."""
_POINT_FACTORS = {1: (3.0, 2.0), 2: (1.75, 1.5), 3: (1.4, 1.25)}
"""Factors of the points per direction, for the refined reference and its coarser version, by the dimension."""
COEFFICIENTS = "feature_coefficients"
"""Name of the file variable with the coefficients of a stored solution."""
_IDENTITY = ("domain", "features", "feature_seed", "lifting", "lifting_parameters")
"""Attributes that identify a stored solution together with its times and coefficients."""
BY_FUNCTION = "a function"
"""Attribute value for a lifting that is a function instead of a formula."""


def make_reference(
    name: str | UserCode | StoredSolution | None, problem: Any, run: Discretisation, points: int | None,
    dt: float | None, solve: Callable[..., Any] = solve_arrays,
) -> Reference | None:  # fmt: skip
    """Return the reference for the errors of `run`, or None for the exact solution."""
    if isinstance(name, StoredSolution):
        stored = name
        stored.check(problem, run.grid.observed_times)
        return Reference(("stored", stored.digest), lambda nodes, times: stored.evaluate(nodes)[stored.locate(times)])
    if isinstance(name, UserCode):
        return Reference(("function", dump_canonical({"code": name.fingerprint})), partial(_call_function, name.load()))
    if name is None or name == EXACT:
        if name is not None and problem.exact is None:
            raise ProblemError("`reference` must not be exact for a problem without `exact`")
        return None
    if name == REFINED:
        steps = [run.grid.dt / count for count in _STEP_FACTORS] if dt is None else [dt, 2.0 * dt]
        fine, coarse = (refine_run(run, problem.dimension, level, step) for level, step in enumerate(steps))
        return _pair_references(
            (name,), lambda run, grid: solve(problem, run), (fine, fine.grid), (coarse, coarse.grid)
        )
    if name not in BY_POINTS:
        raise ParameterError("reference", f"one of {', '.join(NAMES)}", name)
    if points is None:
        raise ParameterError("reference_points", f"given for {name}", None)
    grid = run.grid.refine(dt or run.grid.dt / STEPS_PER_STEP[name])
    half = TimeGrid(grid.final_time, (grid.steps + 1) // 2, ())
    if name == DIFFERENCES:
        check_differences(problem, points, run.integrator, "reference_points")
        # the reference of the paper, with a given step, has no extrapolation and no coarser version
        solver = solve_differences if dt else extrapolate_differences
        coarser = None if dt else (max(1, points // 2), half)
        return _pair_references(
            (name, run.integrator), lambda points, grid: solver(problem, points, grid, run.integrator),
            (points, grid), coarser,
        )  # fmt: skip
    # imported here, because scikit-fem takes 0.2 s to import in each worker
    from evogt_study.pde.baselines import finite_elements as elements

    coarser = (elements.check_quadratic_elements(problem, points), half)
    return _pair_references((name,), partial(elements.solve_by_quadratic_elements, problem), (points, grid), coarser)


def _pair_references(
    key: tuple[Hashable, ...], solve: Callable[[Any, TimeGrid], Any], fine: tuple[Any, TimeGrid],
    coarse: tuple[Any, TimeGrid] | None,
) -> Reference:  # fmt: skip
    """Return the reference with the `fine` settings, and its version with coarser settings."""

    def evaluate(settings: tuple[Any, TimeGrid], nodes: Array, times: Array) -> Array:
        solution, grid = solve(*settings), settings[1]
        places = np.searchsorted(grid.observed_times, times - 1e-9 * grid.final_time)  # equal up to rounding errors
        return np.asarray(solution.evaluate(nodes)[places])

    coarser = None if coarse is None else Reference((*key, *coarse, False), partial(evaluate, coarse))
    return Reference((*key, *fine, coarse is None), partial(evaluate, fine), coarser)


def _call_function(function: Callable[[Array, float], Any], nodes: Array, times: Array) -> Array:
    """Return the values (T, Q) of a user function.  Raises ProblemError if their shape or type is wrong."""
    values = [np.asarray(function(nodes, float(t)), dtype=float) for t in times]
    for found in values:
        if found.shape != (len(nodes),) or not np.isfinite(found).all():
            raise ProblemError(
                f"`reference` must give finite numbers of shape ({len(nodes)},), got shape {found.shape}"
            )
    return np.stack(values)


def share_among_workers(reference: Reference, content: str) -> Reference:
    """Return a reference with values that one worker computes for all workers.  `content` identifies the problem."""

    def evaluate(nodes: Array, times: Array) -> Array:
        inputs = repr((content, reference.key, nodes.shape, times.shape)).encode()
        name = blake2b(inputs + nodes.tobytes() + times.tobytes(), digest_size=20).hexdigest()
        return load_or_compute(name, lambda: reference.values(nodes, times))

    coarser = None if reference.coarser is None else share_among_workers(reference.coarser, content)
    return Reference(reference.key, evaluate, coarser)


def refine_run(run: Discretisation, dimension: int, level: int, dt: float) -> Discretisation:
    """Return the settings of a refined reference (level 0) or of its coarser version (level 1) for a run."""
    dictionary, rule, times = run.dictionary, run.quadrature, FEATURE_FACTORS[level]
    wider: dict[str, Any] = {"N": times * dictionary.N}
    # Widen the hidden layers too, because sums of few neurons would be linearly dependent features.
    if hidden := getattr(dictionary, "hidden", None):
        wider["hidden"] = tuple(times * width for width in hidden)
    # one gamma for each neuron of the wider first layer
    if isinstance(gamma := getattr(dictionary, "gamma", None), tuple):
        wider["gamma"] = gamma * times
    if isinstance(rule, TriangleRule):
        rule = TriangleRule(rule.refinements + 1, rule.degree + 4 * (1 - level))
    else:
        most = min(MAX_GAUSS_POINTS, int(MAX_NODES ** (1.0 / dimension)))
        rule = QuadratureRule(rule.rule, min(most, int(np.ceil(_POINT_FACTORS[dimension][level] * rule.points))))
    return replace(
        run,
        dictionary=replace(dictionary, **wider),
        seed=_SEED if dictionary.RANDOM else 0,
        quadrature=rule,
        grid=run.grid.refine(dt),
        # a reference needs no diagnostics
        assessment=None,
        coefficient_reference=None,
    )


@dataclass(frozen=True)
class StoredSolution(Labelled):
    """Solution from a file, with coefficients c (S, N) at `times` (S,) and a description of features and domain."""

    times: Array = field(compare=False)
    coefficients: Array = field(compare=False)
    attributes: Mapping[str, Any] = field(compare=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        stored = json.dumps({name: str(self.attributes[name]) for name in _IDENTITY if name in self.attributes})
        # 80 bits, so the probability of a collision among a million solutions is 4e-13
        content = self.coefficients.tobytes() + self.times.tobytes() + stored.encode()
        object.__setattr__(self, "digest", blake2b(content, digest_size=10).hexdigest())

    def content(self) -> dict[str, str]:
        return {"stored": self.digest}

    def __str__(self) -> str:
        return f"stored({self.digest})"

    @property
    def domain(self) -> Domain:
        return make_domain(json.loads(self.attributes["domain"]))

    # compare descriptions, because the domain of the file is another object
    def check(self, problem: Problem, times: Array) -> None:
        """Raise ProblemError if the solution cannot be a reference for `problem` at `times`."""
        if describe_domain(self.domain) != describe_domain(problem.domain):
            raise ProblemError(f"`reference` must be on the problem's domain, got a run on {self.domain}")
        self.locate(times)

    def evaluate(self, nodes: Array) -> Array:
        """Return the solution at the points `nodes` and at all stored times, (P, d) -> (S, P)."""
        content = json.loads(self.attributes["features"])
        # JSON has lists instead of the tuples of a dictionary
        given: Any = {name: tuple(part) if isinstance(part, list) else part for name, part in content.items()}
        dictionary = FAMILIES[content["family"]](**given)
        features = self.domain.features(dictionary, int(self.attributes["feature_seed"]))
        values = np.asarray(self.coefficients @ evaluate_trial(self.domain, features, nodes).T)
        formula = self.attributes.get("lifting")
        if formula is None:
            return values
        if formula == BY_FUNCTION:
            raise ResultError("the lifting of a stored solution must be a formula, got a function")
        expression = parse_term(formula, "lifting", self.domain.dimension)
        return values + make_space_time_function(expression, json.loads(self.attributes["lifting_parameters"]))(
            nodes, self.times
        )

    def locate(self, times: Array) -> npt.NDArray[np.intp]:
        """Return the positions of `times` among the stored times.  Raises ProblemError if a time is not stored."""
        places = np.abs(self.times - times[:, None]).argmin(axis=1)
        apart = np.abs(self.times[places] - times)
        # a relative rounding error of 1e-9 is allowed, as in `TimeGrid.from_step`
        if not (apart <= 1e-9 * float(self.times[-1])).all():
            got = f"none at t = {float(times[np.argmax(apart)]):.6g}"
            raise ProblemError(f"`reference` must have been saved at the observed times of the run, got {got}")
        return np.asarray(places, dtype=np.intp)


def find_reference_solution(raw: Any, folder: Path) -> Any:
    """Return `raw`, or times (S,), coefficients (S, N) and attributes if `raw` names a stored solution in `folder`."""
    if not (isinstance(raw, str) and raw.endswith(".nc")):
        return raw
    import netCDF4  # imported here, because only the client reads the file

    try:
        with HDF5_LOCK, netCDF4.Dataset(folder / raw) as file:
            given = {name: file.getncattr(name) for name in file.ncattrs()}
            attributes = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
            times, coefficients = (np.asarray(file[name][:], dtype=float) for name in ("time", COEFFICIENTS))
    except (OSError, IndexError) as error:  # netCDF4 raises IndexError for a missing variable
        wanted = f"the file of a Dataset that `solve` returned ({shorten(str(error))})"
        raise ParameterError("reference", wanted, str(folder / raw)) from None
    return {"times": times, "coefficients": coefficients, "attributes": attributes}

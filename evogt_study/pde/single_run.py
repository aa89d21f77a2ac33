"""One run as a labelled Dataset.  `solve` computes the run, and `evaluate` returns its solution at any points."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import evogt_study.accessor  # noqa: F401  # so that the Datasets have the accessor `ds.evogt`
from evogt_study.errors import InputError, ParameterError, ProblemError, ResultError, shorten
from evogt_study.formulas import SPACE
from evogt_study.methods.code import Output, find_named_code
from evogt_study.pde.baselines.references import BY_FUNCTION, COEFFICIENTS, StoredSolution, make_reference
from evogt_study.pde.certificates.certify import check_certificates, find_certificates
from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.domains import describe_domain
from evogt_study.pde.galerkin.problem import Problem, check_data
from evogt_study.pde.galerkin.validation import CoefficientReference
from evogt_study.pde.integrators import Integrator, Start
from evogt_study.pde.methods import evolution
from evogt_study.pde.methods.declarations import PARAMETERS, VARIABLES, make_integrator
from evogt_study.pde.methods.problem_method import declare_formula_parameter
from evogt_study.pde.numerics import QuadratureRule, TimeGrid, TriangleRule
from evogt_study.pde.pipeline import Discretisation, Reference, Solution, compute_stage
from evogt_study.pde.pipeline import solve_arrays as solve_arrays
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import make_coordinate
from evogt_study.schema.variables import warn_of_accuracy
from evogt_study.storage.hdf5 import HDF5_LOCK

Rule = int | dict[str, Any] | QuadratureRule | TriangleRule
"""Number of Gauss-Legendre points per direction, table of a study file, or rule."""
DEFAULT_VALIDATION = {
    1: QuadratureRule("composite_midpoint", 4096),
    2: QuadratureRule("gauss_legendre", 64),
    3: QuadratureRule("gauss_legendre", 22),
}
"""Validation rules of the paper by dimension, which are finer than the assembly rules (tab:experiment_overview)."""


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
    start: Start | dict[str, int] | None = None,
    reference: str | Path | Reference | None = None,
    reference_points: int | None = None,
    reference_dt: float | None = None,
    assessment: Rule | None = None,
    coefficient_reference: str | CoefficientReference | None = None,
    norms: Collection[str] = (),
    field: int | None = None,
    certificates: bool | Sequence[str] = True,
) -> xr.Dataset:
    """Solve a problem in the retained space of one dictionary (Algorithm 1).

    Parameters
    ----------
    problem : Problem
        The problem, such as ``pde.problems.oscillatory_1d(epsilon=0.1)``.
    dictionary : Dictionary
        Family of features.
    seed : int
        Seed of the random draws.
    quadrature, validation, assessment : int or rule
        Assembly rule, validation rule for the errors, and assessment rule for the cross-grid defects.
    dt, final_time : float
        Time step and final time.  The default of `final_time` is the final time of the problem.
    tau : float, default 1e-12
        Threshold on the eigenvalues of the mass matrix.
    times : int or tuple of float, optional
        Number of evenly spaced saved times, or a list of times.  By default, the run saves every step.
    time_integrator : str or Integrator, default "implicit_midpoint"
        Name of an integrator, or an integrator with its parameters.
    stabilization, start : float and mapping, optional
        Parameters of the integrator if `time_integrator` is a name.
    reference : str, Path or Reference, optional
        Solution that replaces the exact solution in errors.  A string has the meaning of `reference` in a study file.
    reference_points, reference_dt, coefficient_reference : optional
        Resolution of the reference, and reference of the final coefficients, with the meaning of a study file.
    norms : collection of str
        More errors to measure: error_absolute, error_max, error_h1, error_max_over_time.
    field : int, optional
        Number of points per direction of a uniform grid.  The Dataset contains the solution on this grid.
    certificates : bool or list of str, default True
        Bounds and estimates of the error.  With True, the run computes all bounds and estimates that need no spectral
        reference.  With False, the run computes no bounds.  A list contains names of `record` in a study file.

    Returns
    -------
    Dataset
        Scalars, histories, coefficients (time, mode) and singular values (feature) of the run.

    Raises
    ------
    InputError
        If a value is outside its range, or the problem contradicts an assumption, such as positive diffusion.
    RunError
        If the run fails.

    Warns
    -----
    AccuracyWarning
        If the assembly rule is too coarse, or the ball of the dictionary does not contain the domain.

    Examples
    --------
    >>> from evogt_study import pde
    >>> dictionary = pde.Dictionary("gtransnet", N=40, N1=160, gamma=10.0)
    >>> run = pde.solve(pde.problems.oscillatory_1d(epsilon=0.2), dictionary, 0, quadrature=200, dt=0.01)
    >>> bool(run.error < 1e-2)
    True
    """
    integrator = time_integrator
    if not isinstance(integrator, Integrator):
        named: dict[str, Any] = {"time_integrator": integrator, "stabilization": stabilization}
        integrator = make_integrator(named if start is None else named | {"start": Start.read(start)})
    given = {
        "quadrature": quadrature, "validation": validation, "assessment": assessment, "seed": seed, "tau": tau,
        "final_time": problem.final_time if final_time is None else final_time, "dt": dt,
    }  # fmt: skip
    run = _make_discretisation(problem, dictionary, integrator, given, times, coefficient_reference)
    check_data(problem, run.grid.final_time)
    evolution.check_norms(problem, norms)
    if isinstance(certificates, bool):
        wanted = find_certificates(problem, run.grid.final_time) if certificates else ()
    else:
        check_certificates(certificates, problem, run.grid.final_time)
        wanted = tuple(certificates)
    if isinstance(reference, (str, Path)):
        stated: Any = str(reference)
        if stated.endswith(".nc"):
            stated = read_solution(stated)
        elif ".py:" in stated:
            stated = find_named_code(stated, Path())
        reference = make_reference(stated, problem, run, reference_points, reference_dt)
    shown = *evolution.HISTORIES, *norms, *(() if field is None else ("field",))

    def compute(*names: str) -> xr.Dataset:
        output = Output(record=(*shown, *names), grid=field or 0)
        with np.errstate(all="ignore"):  # `compute_record` reports values that are not finite
            return label_solution(*evolution.compute_record(problem, run, output, compute_stage, reference, ""))

    try:
        data = compute(*wanted)
    except ProblemError:  # certificates use other nodes and times, at which a diffusion may be negative
        if certificates is not True:
            raise
        data = compute()
    warn_of_accuracy(data)
    return data


def _make_discretisation(
    problem: Problem, dictionary: Dictionary, integrator: Integrator, given: dict[str, Any],
    times: int | tuple[float, ...] | None, coefficient_reference: str | CoefficientReference | None,
) -> Discretisation:  # fmt: skip
    """Return the settings of a run.  Raises ParameterError or ProblemError if the settings contradict each other."""
    if given["final_time"] is None:
        raise ParameterError("final_time", "given, because the problem has no final time", None)
    checked: dict[str, Any] = {name: PARAMETERS[name].value(each) for name, each in given.items() if each is not None}
    if isinstance(coefficient_reference, str):
        coefficient_reference = CoefficientReference(coefficient_reference)
    if coefficient_reference is not None:
        coefficient_reference.check(problem)
    dictionary.check_dimension(problem.domain.feature_dimension)
    describe_domain(problem.domain)  # fail before the computation if the Dataset cannot describe the domain
    if "validation" not in checked:  # the rule of the paper on a box, else a fine rule on triangles
        boxed = isinstance(problem.domain.usual_rule, QuadratureRule)
        checked["validation"] = DEFAULT_VALIDATION[problem.dimension] if boxed else TriangleRule(4, 8)
    grid = TimeGrid.from_step(checked.pop("final_time"), checked.pop("dt"), times)
    return Discretisation(
        dictionary, grid=grid, integrator=integrator, coefficient_reference=coefficient_reference, **checked
    )


def label_solution(solution: Solution, record: Record) -> xr.Dataset:
    """Return a solution as a Dataset with the attributes of a study result."""
    run, problem, space = solution.discretisation, solution.problem, solution.space
    # Store coefficients of the features, because T_r differs between machines by signs, and by rotations of directions
    # with almost equal singular values.
    saved = solution.trajectory.coefficients[run.grid.saved_positions]
    coefficients = {COEFFICIENTS: Datum(("time", "feature"), saved @ space.transform.T)}
    data, axes = (
        {name: (datum.dims, datum.values, VARIABLES[name].attributes) for name, datum in known.items()}
        for known in ({**record.variables, **coefficients}, record.coordinates)
    )
    parameters: dict[str, Any] = {
        "dictionary": run.dictionary.family, "seed": run.seed, **run.dictionary.labels(problem.dimension),
        "tau": run.tau, "quadrature": run.quadrature, "validation": run.validation, "assessment": run.assessment,
        "final_time": run.grid.final_time, "dt": run.grid.dt, "time_integrator": run.integrator.name,
        **run.integrator.values,
    }  # fmt: skip
    parameters |= {name: value for name, value in problem.parameters.items() if parameters.get(name) is None}
    declared = {**PARAMETERS, **run.dictionary.parameters(), **run.integrator.parameters()}
    labels = {name: make_coordinate([value])[0] for name, value in parameters.items() if value is not None}
    constants = {
        name: ((), label, (declared.get(name) or declare_formula_parameter(name)).attributes(label))
        for name, label in labels.items()
    }
    sizes = {"mode": space.rank, "feature": len(solution.svd.singular_values)}
    indices = {name: (name, np.arange(size), VARIABLES[name].attributes) for name, size in sizes.items()}
    attributes: dict[str, Any] = {
        "title": "one run", "problem": problem.name, "feature_seed": run.seed,
        "domain": json.dumps(describe_domain(problem.domain, whole=True)),
        "features": json.dumps(run.dictionary.content()),
    }  # fmt: skip
    if problem.lifting is not None:
        attributes["lifting"] = problem.lifting.formula or BY_FUNCTION
        attributes["lifting_parameters"] = json.dumps(dict(problem.parameters))
    return xr.Dataset(data, axes | indices | constants, attributes)


def evaluate(data: xr.Dataset | str | Path, points: Any) -> xr.DataArray:
    """Evaluate the solution of `solve` at points.

    Parameters
    ----------
    data : Dataset, str or Path
        Dataset that `solve` returned, or a NetCDF file with such a Dataset.
    points : array_like
        Points (P, d) in the domain.  In 1-D, the shape (P,) is also valid.

    Returns
    -------
    DataArray
        Values of u with the dimensions `time` (the saved times) and `point`.

    Raises
    ------
    ResultError
        If `data` is not a Dataset of `solve`.
    InputError
        If a point is not in the domain.

    Examples
    --------
    >>> from evogt_study import pde
    >>> heat = pde.FormulaProblem(dimension=1, exact="exp(-t)*sin(pi*x)")()
    >>> sines = pde.Dictionary("sine", N=4)
    >>> run = pde.solve(heat, sines, 0, quadrature=20, dt=0.01, final_time=0.1, certificates=False)
    >>> float(pde.evaluate(run, [0.5]).isel(time=-1, point=0).round(3))
    0.905
    """
    solution = read_solution(data)
    domain = solution.domain
    try:
        nodes = np.asarray(points, dtype=float)
        if nodes.ndim < 2:
            nodes = nodes.reshape((-1, 1) if domain.dimension == 1 else (1, -1))
    except (TypeError, ValueError):
        nodes = np.empty((0, 0))
    if nodes.ndim != 2 or nodes.shape[1] != domain.dimension or not np.isfinite(nodes).all():
        raise InputError(f"`points` must be numbers of shape (points, {domain.dimension}), got {shorten(points)}")
    lower, upper = domain.bounds()
    within = np.all((nodes >= lower) & (nodes <= upper), axis=1) & domain.contains(nodes)
    if not within.all():
        raise InputError(f"`points` must lie in the domain, got {nodes[~within][0].tolist()}")
    coordinates: dict[str, Any] = {"time": ("time", solution.times)}
    coordinates |= {name: ("point", nodes[:, axis]) for axis, name in enumerate(SPACE[: domain.dimension])}
    return xr.DataArray(solution.evaluate(nodes), coordinates, ("time", "point"), "u")


def read_solution(data: xr.Dataset | str | Path) -> StoredSolution:
    """Return the solution from a Dataset of `solve` or from its file.  Raises ResultError if `data` has no solution."""
    if not isinstance(data, xr.Dataset):
        try:
            with HDF5_LOCK, xr.open_dataset(data, engine="netcdf4") as opened:
                return read_solution(opened.load())
        except (OSError, ValueError) as error:
            raise ResultError(f"cannot read {str(data)!a}: {shorten(str(error))}") from None
    if COEFFICIENTS not in data or "domain" not in data.attrs:
        raise ResultError(f"`data` must be a Dataset of `solve`, got a Dataset without `{COEFFICIENTS}`")
    times, coefficients = np.asarray(data["time"].values, dtype=float), np.asarray(data[COEFFICIENTS].values)
    return StoredSolution(times, coefficients, dict(data.attrs))

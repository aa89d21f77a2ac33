"""The paper's method as the sweep runs it: parameters to a `Discretisation`, and a `Solution` to a record."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from evogt_study.errors import DivergedError, InputError, ParameterError, ProblemError, StudyError
from evogt_study.method import diagnostics
from evogt_study.method.arrays import Array
from evogt_study.method.dictionary import BLOCK_ENTRIES, FAMILIES, Dictionary, default_radius
from evogt_study.method.galerkin import check_diffusion
from evogt_study.method.implicit_midpoint import TimeGrid
from evogt_study.method.problem import Problem
from evogt_study.method.quadrature import MAX_GAUSS_POINTS, Quadrature, QuadratureRule
from evogt_study.method.solve import Discretisation, Share, Solution, solve, stage_keys
from evogt_study.problems.grammar import RESERVED, SPACE
from evogt_study.sweep.contract import Datum, MethodSpec, Output, Record
from evogt_study.sweep.parameters import (
    Parameter,
    choice,
    integer,
    one_or_several,
    quadrature_rule,
    real,
    several,
)
from evogt_study.sweep.problem_source import ProblemSource
from evogt_study.sweep.schema import COORDINATES, EVOLUTION
from evogt_study.sweep.values import Values, content_hash

_RULE = (
    f"a number of Gauss-Legendre points, at most {MAX_GAUSS_POINTS}, "
    'or { rule = "gauss_legendre" or "composite_midpoint", points = n }'
)
PARAMETERS = {
    parameter.name: parameter
    for parameter in (
        Parameter("dictionary", f"one of {', '.join(FAMILIES)}", choice(FAMILIES), "dictionary of prescribed features"),
        Parameter("seed", "an integer >= 0", integer(0), "seed of the dictionary's random draws"),
        Parameter("N", "an integer >= 1", integer(1), "number of output features N"),
        Parameter("N1", "an integer >= 1", integer(1), "width of the first hidden layer N_1",
                  "used by gtransnet only", optional=True),
        Parameter("hidden", "a list of integers >= 1", several(integer(1)),
                  "widths of the hidden layers before the last", "used by gtransnet only", optional=True),
        Parameter("gamma", "a positive number, or a list with one for each first-layer neuron",
                  one_or_several(real(0.0)), "γ", "shape parameter of the first layer, eq:trans_feature"),
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
        Parameter("time_integrator", "implicit_midpoint", choice(("implicit_midpoint",)), "time integrator",
                  default="implicit_midpoint"),
    )
}  # fmt: skip

SCALARS = ("error", "initial_error", "rank", "retained_condition", "raw_resolution", "mass_defect")
RECORDABLE = ("error_history", "energy_history", "norm_history", "coefficients", "field")


@dataclass(frozen=True, eq=False)
class Evolution:
    """Evo-GTransNet (Algorithm 1) for one problem and one choice of outputs."""

    source: ProblemSource
    output: Output
    parameters: Mapping[str, Parameter]
    checked: set[str] = field(default_factory=set, repr=False)

    @staticmethod
    def of(spec: MethodSpec) -> Evolution:
        """Raises StudyError where the problem or the outputs cannot be had."""
        if spec.problem is None or spec.output is None:
            raise StudyError("`problem` must be given for the method evolution")
        source = ProblemSource.of(spec.problem)
        unknown = [name for name in spec.output.record if name not in RECORDABLE]
        if unknown:
            raise StudyError(f"`record` must be made of {', '.join(RECORDABLE)}, got {unknown[0]!r} (output.record)")
        if source.has_exact is False and "error_history" in spec.output.record:
            raise StudyError(
                "`record` must leave out error_history for a problem without exact solution (output.record)"
            )
        own = {name: parameter for name, parameter in source.parameters.items() if name not in PARAMETERS}
        return Evolution(source, spec.output, {**PARAMETERS, **own})

    @property
    def variables(self) -> tuple[str, ...]:
        exact = ("exact_field",) if "field" in self.output.record and self.source.has_exact is not False else ()
        return self.scalars + self.output.record + exact

    @property
    def scalars(self) -> tuple[str, ...]:
        return tuple(name for name in SCALARS if name != "error" or self.source.has_exact is not False)

    @property
    def reserved(self) -> frozenset[str]:
        return frozenset({*EVOLUTION, *COORDINATES, *RESERVED})

    def required(self, values: Values) -> tuple[str, ...]:
        always = [
            name for name, parameter in self.parameters.items() if parameter.default is None and not parameter.optional
        ]
        if values.get("dictionary") == "gtransnet" and "hidden" not in values:
            always.append("N1")
        return tuple(always)

    def check(self, values: Values) -> None:
        run = self.discretisation(values)
        if self.source.dimension is not None:
            run.dictionary.check_dimension(self.source.dimension)
        if not self.output.record:  # then no time is saved, but what the file says has to make sense all the same
            TimeGrid.of(run.grid.final_time, run.grid.dt, self.output.times)
        steps = (run.grid.final_time, run.grid.steps)
        key = content_hash(
            [self.problem_identity(values), run.quadrature, run.validation, *steps, run.dictionary.centre]
        )
        if key not in self.checked:  # many cases have the same problem, and looking at all of its nodes takes time
            problem = self.problem(values)
            if problem.exact is None and "error_history" in self.output.record:
                raise ProblemError(
                    "`exact` must be known where `record` asks for error_history, got a problem without it"
                )
            run.dictionary.check_dimension(problem.dimension)
            with np.errstate(all="ignore"):
                _check_on_nodes(problem, run, self.source.name)
            self.checked.add(key)

    def identity(self, values: Values) -> Mapping[str, Any]:
        return {
            "method": "evolution",
            "version": 1,  # raised when the same parameters come to mean other numbers
            "time_integrator": values["time_integrator"],
            "problem": self.problem_identity(values),
            "run": _content(self.discretisation(values), self.source.dimension),
            "record": sorted(self.output.record),
            "grid": self.output.grid if "field" in self.output.record else None,
        }

    def problem_identity(self, values: Values) -> Mapping[str, Any]:
        return {"content": self.source.content, "values": self.problem_values(values)}

    def stages(self, values: Values) -> Mapping[str, Hashable]:
        problem = content_hash(self.problem_identity(values))
        return stage_keys(problem, self.source.dimension or 0, self.discretisation(values))

    def leading(self) -> tuple[str, ...]:
        return (
            "validation",
            "quadrature",
            "dictionary",
            "N",
            "N1",
            "hidden",
            "delta",
            "radius",
            "centre",
            "gamma",
            "candidate",
            "seed",
            "tau",
        )

    def depends_on_seed(self) -> bool:
        return "seed" in self.source.parameters

    def sizes(self) -> tuple[str, ...]:
        return ("dictionary", "N", "N1", "hidden", "quadrature", "validation", "dt", "final_time")

    def memory(self, values: Values) -> float:
        run, dimension = self.discretisation(values), self.source.dimension or 2
        nodes, validation = run.quadrature.points**dimension, run.validation.points**dimension
        N = run.dictionary.N
        trial = nodes * N * (1 + dimension)
        widths = (*run.dictionary.hidden, N)
        layers = sum(map(operator.mul, widths, widths[1:])) + max(BLOCK_ENTRIES, 32 * max(widths)) * (1 + dimension)
        return 8.0 * float(layers + 2 * trial + 2 * nodes * N + validation * (N + len(run.grid.observed) * 3))

    def discretisation(self, values: Values) -> Discretisation:
        """The run's scalars.  Raises ParameterError where they do not fit together."""
        given: dict[str, Any] = dict(values)
        layers = {name: given[name] for name in ("N1", "hidden") if name in given}
        if given["dictionary"] != "gtransnet":
            layers = {}
        return Discretisation(
            dictionary=Dictionary(
                given["dictionary"], given["N"], given["gamma"], **layers,
                delta=given["delta"], radius=given.get("radius"), centre=given["centre"],
            ),
            seed=given["seed"],
            tau=given["tau"],
            quadrature=given["quadrature"],
            validation=given["validation"],
            grid=TimeGrid.of(given["final_time"], given["dt"], self.output.times if self.output.record else 2),
        )  # fmt: skip

    def problem_values(self, values: Values) -> dict[str, Any]:
        return {name: values[name] for name in self.source.parameters if name in values}

    def problem(self, values: Values) -> Problem:
        """The problem of one case.  Raises ProblemError or ParameterError where its data cannot be used."""
        given = self.problem_values(values)
        for name, value in given.items():
            if name in PARAMETERS and (isinstance(value, bool) or not isinstance(value, (int, float))):
                raise ParameterError(name, "a number where a formula uses it", value)
        return self.source.make(**given)

    def run(self, values: Values, share: Share) -> Record:
        key = content_hash(self.problem_identity(values))
        problem = share("problem", key, lambda: self.problem(values))
        solution = solve(problem, self.discretisation(values), share)
        record = self.record(solution)
        for name in SCALARS:
            value = record.variables.get(name)
            if name != "initial_error" and value is not None and not np.isfinite(value.values).all():
                raise DivergedError(f"`{name}` is {float(value.values)}")
        return record

    def record(self, solution: Solution) -> Record:
        """Scalars, the histories asked for at the saved times, and the coordinates of their dimensions."""
        wanted = self.output.record
        variables = {**scalars(solution), **histories(solution, wanted)}
        coordinates = {"time": Datum(("time",), solution.discretisation.grid.saved_times)} if wanted else {}
        if "field" in wanted:
            fields, axes = _fields(solution, self.output.grid)
            variables.update(fields)
            coordinates.update(axes)
        return Record(variables, coordinates)


def _check_on_nodes(problem: Problem, run: Discretisation, name: str) -> None:
    """The diffusion on the assembly nodes; a problem of the user's own making may not even be a function there."""
    try:
        _on_unit_cube("validation", run.validation, problem.dimension)
        nodes = _on_unit_cube("quadrature", run.quadrature, problem.dimension)
        check_diffusion(problem, nodes, run.grid.midpoints)
    except InputError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise ProblemError(f"`diffusion` of {name} must be a function of nodes and times: {told}") from error


def _on_unit_cube(name: str, rule: QuadratureRule, dimension: int) -> Quadrature:
    try:
        return rule.on_unit_cube(dimension)
    except ParameterError as error:
        raise ParameterError(name, error.wanted, error.got) from None


def scalars(solution: Solution) -> dict[str, Datum]:
    """The measurements of `SCALARS`; the final error only where the problem has an exact solution."""
    space = solution.space
    known = {
        "initial_error": solution.errors[0],
        "rank": space.rank,
        "retained_condition": space.condition,
        "raw_resolution": solution.svd.raw_resolution,
        "mass_defect": space.mass_defect,
    }
    if solution.problem.exact is not None:
        known["error"] = solution.errors[-1]
    return {name: Datum((), np.asarray(known[name])) for name in SCALARS if name in known}


def histories(solution: Solution, wanted: tuple[str, ...]) -> dict[str, Datum]:
    """Those of error_history, energy_history, norm_history and coefficients that are `wanted`, at the saved times."""
    trajectory = solution.trajectory
    makers: dict[str, Callable[[], Array]] = {
        "error_history": lambda: solution.errors,
        "energy_history": lambda: diagnostics.energy_history(solution.system, trajectory),
        "norm_history": lambda: diagnostics.norm_history(trajectory),
        "coefficients": lambda: trajectory.coefficients,
    }
    saved = solution.discretisation.grid.saved_positions
    return {name: Datum(EVOLUTION[name].dims, make()[saved]) for name, make in makers.items() if name in wanted}


def _fields(solution: Solution, points: int) -> tuple[dict[str, Datum], dict[str, Datum]]:
    """Numerical and, where known, exact solution on the uniform grid of `points` per direction, boundary included."""
    dimension, saved = solution.problem.dimension, solution.discretisation.grid.saved_positions
    along = np.linspace(0.0, 1.0, points)
    nodes = np.stack([g.ravel() for g in np.meshgrid(*[along] * dimension, indexing="ij")], axis=1)
    dims = ("time", *SPACE[:dimension])
    shape = (len(saved),) + (points,) * dimension
    fields = {"field": Datum(dims, solution.evaluate(nodes)[saved].reshape(shape))}
    if solution.problem.exact is not None:
        times = solution.trajectory.times[saved]
        fields["exact_field"] = Datum(dims, solution.problem.exact(nodes, times).reshape(shape))
    return fields, {name: Datum((name,), along) for name in dims[1:]}


def _content(run: Discretisation, dimension: int | None) -> dict[str, Any]:
    """The discretisation as JSON-able content, with a radius left out and the default radius being the same run."""
    content = asdict(run)
    if content["dictionary"]["radius"] is None and dimension is not None:
        content["dictionary"]["radius"] = default_radius(dimension)
    if content["dictionary"]["family"] != "gtransnet":
        del content["dictionary"]["hidden"], content["dictionary"]["delta"]
    return content

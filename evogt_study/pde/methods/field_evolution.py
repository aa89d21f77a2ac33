"""The paper's method for several fields or nonlinear fluxes, as a method of a study."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from evogt_study.errors import ParameterError, StudyError
from evogt_study.formulas import SPACE
from evogt_study.methods.protocol import MethodSpec
from evogt_study.pde.baselines.references import EXACT, REFINED, refined_run
from evogt_study.pde.domains import Box
from evogt_study.pde.domains.base import WithConstant
from evogt_study.pde.galerkin.flux_system import FluxSystem
from evogt_study.pde.galerkin.retained_space import RetainedSpace, retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.validation import relative_errors
from evogt_study.pde.integrators.newton_steps import NewtonSteps, check_integrator
from evogt_study.pde.methods.parameters import EvolutionParameters, integrator_of
from evogt_study.pde.methods.problem_method import (
    ProblemCase,
    ProblemMethod,
    dictionary_of,
    finite,
    quadrature_of,
    seconds_of,
)
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.numerics.quadrature import Rule
from evogt_study.pde.numerics.time_grid import TimeGrid, Trajectory
from evogt_study.pde.pipeline import Discretisation, Share, afresh
from evogt_study.pde.problems.fields import FieldData, FieldProblem
from evogt_study.schema.parameters import choice, declared, declared_in, integer, same_as, typed
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Values, canonical_json

_RECORDABLE = ("error_history", "field", "integral_history")
_TOLERANCE, _KEPT, FRESH = 1e-13, "kept", "fresh"


@dataclass(frozen=True, eq=False)
class FieldSolution:
    """Coefficients of all fields at the observed times."""

    data: FieldData
    system: FluxSystem
    trajectory: Trajectory

    def evaluate(self, nodes: Array) -> Array:
        """The fields at the observed times, (P, d) -> (S, n, P)."""
        pairs = zip(self.trajectory.coefficients, self.trajectory.times.tolist(), strict=True)
        return np.stack([self.system.evaluate(z, nodes, t) for z, t in pairs])


def solve_fields(
    data: FieldData, run: Discretisation, tolerance: float = 1e-13, keep: bool = True, share: Share = afresh
) -> FieldSolution:
    """Solve in one retained space for each field (eq:retained_basis).

    Raises ParameterError for an integrator that cannot advance the fields, EmptySpaceError, and DivergedError if
    Newton's method does not converge.
    """
    check_integrator(run.integrator)
    boxes = [data.problem.box(each) for _, each in data.problem.fields]
    spaces = [_space(box, run, share) for box in boxes]
    rules = {name: rule for space in spaces for name, rule in space.quadrature.faces.items()}
    system = FluxSystem(data.terms, spaces, rules)
    return FieldSolution(data, system, NewtonSteps(system, tolerance, keep).march(run.integrator, run.grid))


def _space(box: Box, run: Discretisation, share: Share) -> RetainedSpace:
    def make() -> RetainedSpace:
        features = box.features(run.dictionary, run.seed)
        if run.dictionary.RANDOM and not len(box.boundary_points()):
            features = WithConstant(features)
        trial = trial_functions(box, features, box.quadrature(run.quadrature))
        return retain(trial, weighted_svd(trial), run.tau)

    return share("retained space", (run.dictionary, run.seed, run.quadrature, run.tau, box), make)


@dataclass(frozen=True)
class Newton:
    """Settings of Newton's method.  factors: "kept" while the iteration contracts, or "fresh" in each iteration.

    Raises ParameterError for an invalid value.
    """

    tolerance: float = _TOLERANCE
    factors: str = _KEPT

    def __post_init__(self) -> None:
        if not isinstance(self.tolerance, float) or not 0.0 < self.tolerance < 1.0:
            raise ParameterError("newton", "a tolerance in (0, 1)", self.tolerance)
        if self.factors not in (_KEPT, FRESH):
            raise ParameterError("newton", f"factors {_KEPT} or {FRESH}", self.factors)

    def content(self) -> dict[str, Any]:
        """Its parts, which identify it."""
        return {"tolerance": self.tolerance, "factors": self.factors}

    @property
    def label(self) -> str:
        """Its label in a result."""
        return str(self)

    def __str__(self) -> str:
        return f"newton({self.tolerance:g}, {self.factors})"

    @staticmethod
    def read(raw: Any) -> Newton:
        """Read a table of a study file.  Raises ValueError for another shape."""
        if isinstance(raw, Newton):
            return raw
        if not isinstance(raw, dict) or not set(raw) <= {"tolerance", "factors"}:
            raise ValueError
        return Newton(**raw)


@dataclass(frozen=True, kw_only=True)
class FieldParameters:
    """Parameters of a case, except the parameters of its dictionary, integrator and problem."""

    dictionary: str = same_as(EvolutionParameters, "dictionary")
    seed: int = declared("an integer >= 0", integer(0), "seed of the dictionary's random draws", default=0)
    tau: float = same_as(EvolutionParameters, "tau")
    quadrature: Rule = same_as(EvolutionParameters, "quadrature")
    validation: Rule = same_as(EvolutionParameters, "validation")
    dt: float = same_as(EvolutionParameters, "dt")
    final_time: float = same_as(EvolutionParameters, "final_time")
    time_integrator: str = same_as(EvolutionParameters, "time_integrator")
    reference: str | None = declared(
        f"{EXACT} or {REFINED} for nonlinear fluxes and several fields", choice((EXACT, REFINED)),
        "what errors are measured against", "the exact solution where left out", optional=True,
    )  # fmt: skip
    newton: Newton | None = declared(
        '{ tolerance = 1e-13, factors = "kept" or "fresh" }', Newton.read, "Newton's method", optional=True
    )


@dataclass(frozen=True, eq=False)
class FieldEvolution(ProblemMethod):
    """The method for one problem with several fields or nonlinear fluxes, and one choice of outputs."""

    solves_fields = True

    @staticmethod
    def of(spec: MethodSpec) -> FieldEvolution:
        """Make the method of `spec`.  Raises StudyError if an output does not exist."""
        method = FieldEvolution.declared(spec, declared_in(FieldParameters), _RECORDABLE)
        taken = set(method.problem_names) & set(method.parameters)
        if taken:
            raise StudyError(f"a field must have another name than a parameter, got {min(taken)!r}")
        return method

    @property
    def problem_names(self) -> tuple[str, ...]:
        """Names of the fields."""
        statement = self.source.statement
        assert isinstance(statement, FieldProblem)  # noqa: S101
        return statement.names

    @cached_property
    def stage_parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("quadrature", "dictionary", *self.of_kinds["dictionary"], "seed", "tau")

    def bind(self, values: Values) -> FieldCase:
        return FieldCase(self, values)

    def scalars(self, values: Values) -> tuple[str, ...]:
        measured = self.source.has_exact or values.get("reference") == REFINED
        errors = ("error", *(f"error_{name}" for name in self.problem_names)) if measured else ()
        return (*errors, *(("reference_error",) if values.get("reference") == REFINED else ()), "rank", "mass_defect")


class FieldCase(ProblemCase):
    """One run for several fields or nonlinear fluxes."""

    NAME = "field_evolution"

    def __init__(self, method: FieldEvolution, values: Values) -> None:
        self.method, self.values = method, values
        self.integrator = integrator_of(values)

    @cached_property
    def given(self) -> FieldParameters:
        """The values by their types."""
        return typed(FieldParameters, self.values)

    @cached_property
    def discretisation(self) -> Discretisation:
        """Everything except the problem."""
        given, dictionary = self.given, dictionary_of(self.values)
        times = self.method.output.times if self.method.output.record else 2
        return Discretisation(
            dictionary=dictionary, seed=given.seed if dictionary.RANDOM else 0, tau=given.tau,
            quadrature=given.quadrature, validation=given.validation,
            grid=TimeGrid.of(given.final_time, given.dt, times), integrator=self.integrator,
        )  # fmt: skip

    @property
    def times_text(self) -> str:
        saved = self.discretisation.grid.saved_times.tolist()
        return canonical_json(saved) if self.method.output.record else "null"

    def list_unused(self) -> tuple[str, ...]:
        return ("reference",) if self.values.get("reference") in (None, EXACT) else ()

    @property
    def stages(self) -> Mapping[str, Hashable]:
        run = self.discretisation
        return {"retained space": (run.dictionary, run.seed, run.quadrature, run.tau)}

    def check(self) -> None:
        check_integrator(self.integrator)
        data: Any = self.method.problem(self.values)
        quadrature_of("quadrature", self.given.quadrature, data.problem)
        quadrature_of("validation", self.given.validation, data.problem)
        if not self._is_measured and "error_history" in self.method.output.record:
            raise StudyError("`record` must leave out error_history without exact solution or reference")

    @property
    def _is_measured(self) -> bool:
        return bool(self.method.source.has_exact) or self.given.reference == REFINED

    @property
    def work(self) -> float | None:
        run, count = self.discretisation, len(self.method.problem_names)
        d = self.method.source.dimension or 1
        r, Q = min(run.dictionary.N, run.quadrature.count(d)), run.quadrature.count(d)
        space = count * (2 * Q * run.dictionary.N**2 + 20 * run.dictionary.N**3)
        step = 4 * ((count * r) ** 3 + count * count * (1 + d) ** 2 * Q * r * r)
        return seconds_of(float(space + run.grid.steps * step))

    def run(self, share: Share) -> Record:
        data: Any = self.method.shared_problem(self.values, share)
        newton = self.given.newton or Newton()
        solution = solve_fields(data, self.discretisation, newton.tolerance, newton.factors == _KEPT, share)
        variables: dict[str, Datum] = {}
        if self._is_measured:
            variables |= self._errors(data, solution, share)
        system = solution.system
        variables["rank"] = Datum((), np.asarray(system.size))
        variables["mass_defect"] = Datum((), np.asarray(max(space.mass_defect for space in system.spaces)))
        return finite(self._with_outputs(data, solution, variables))

    def _errors(self, data: FieldData, solution: FieldSolution, share: Share) -> dict[str, Datum]:
        rule, grid = data.problem.domain.quadrature(self.given.validation), self.discretisation.grid
        found, variables = solution.evaluate(rule.nodes), dict[str, Datum]()
        if self.given.reference == REFINED:
            steps = (8, 4)
            fine, coarse = (self._reference(data, level, grid.dt / steps[level], share)(rule.nodes) for level in (0, 1))
            variables["reference_error"] = _scalar(_relative(coarse, fine, rule.weights)[-1].max())
        else:
            fine = np.stack([data.exact(rule.nodes, t) for t in grid.observed_times.tolist()])
        errors = _relative(found, fine, rule.weights)
        variables["error"] = _scalar(errors[-1].max())
        for name, each in zip(data.problem.names, errors[-1], strict=True):
            about = {"long_name": f"relative L2 error of {name} at the final time", "units": "1"}
            variables[f"error_{name}"] = Datum((), np.asarray(each), about)
        if "error_history" in self.method.output.record:
            variables["error_history"] = Datum(("time",), errors[grid.saved_positions].max(axis=1))
        return variables

    def _reference(self, data: FieldData, level: int, dt: float, share: Share) -> Any:
        run = refined_run(self.discretisation, data.dimension, level, dt)
        key = (self.method.problem_identity(self.values), replace(self.discretisation, seed=0), level)
        return share("reference", key, lambda: solve_fields(data, run)).evaluate

    def _with_outputs(self, data: FieldData, solution: FieldSolution, variables: dict[str, Datum]) -> Record:
        wanted, grid = self.method.output.record, self.discretisation.grid
        coordinates = {"time": Datum(("time",), grid.saved_times)} if wanted else {}
        saved, names = grid.saved_positions, data.problem.names
        if "integral_history" in wanted:
            rule = solution.system.rule
            integrals = solution.evaluate(rule.nodes)[saved] @ rule.weights
            for name, each in zip(names, integrals.T, strict=True):
                about = {"long_name": f"integral of {name} over the domain", "units": "1"}
                variables[f"integral_{name}"] = Datum(("time",), each.copy(), about)
        if "field" in wanted:
            axes = data.problem.domain.axes(self.method.output.grid)
            nodes = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)
            shape, values = (len(saved), *map(len, axes)), solution.evaluate(nodes)[saved]
            dims = ("time", *SPACE[: len(axes)])
            for a, name in enumerate(names):
                about = {"long_name": f"field {name}", "units": "1"}
                variables[name] = Datum(dims, values[:, a].reshape(shape), about)
            coordinates |= {x: Datum((x,), along) for x, along in zip(SPACE, axes, strict=False)}
        return Record(variables, coordinates)


def _scalar(value: Any) -> Datum:
    return Datum((), np.asarray(value))


def _relative(found: Array, known: Array, weights: Array) -> Array:
    """Relative L2 errors of fields, (S, n, Q) -> (S, n)."""
    return np.stack([relative_errors(found[:, a], known[:, a], weights) for a in range(found.shape[1])], axis=1)

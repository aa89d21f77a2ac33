"""Methods of a study for several fields or nonlinear fluxes: the paper's method, and P1 finite elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from evogt_study.errors import ParameterError, StudyError
from evogt_study.formulas import SPACE
from evogt_study.methods.code import UserCode
from evogt_study.methods.protocol import MethodSpec
from evogt_study.pde.baselines.references import (
    ELEMENTS,
    EXACT,
    REFINED,
    ReferenceAmongWorkers,
    RefinedReference,
    element_reference,
)
from evogt_study.pde.domains import Box
from evogt_study.pde.galerkin.flux_system import FieldSpace, FluxSystem
from evogt_study.pde.galerkin.retained_space import RetainedSpace, retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.validation import relative_errors
from evogt_study.pde.integrators.field_steps import FieldSolution, check_integrator, march_fields
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
from evogt_study.pde.numerics.time_grid import TimeGrid
from evogt_study.pde.pipeline import Discretisation, Reference, Share, afresh, estimate_error
from evogt_study.pde.problems.fields import FieldData, FieldProblem
from evogt_study.schema.parameters import choice, declared_parameters, integer, make_typed, parameter_field, same_as
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Value, Values, canonical_json

RECORDABLE_FIELDS = ("error_history", "field", "integral_history")
_TOLERANCE, _KEPT, FRESH = 1e-13, "kept", "fresh"


def states_fields(problem: object) -> bool:
    """Return True if the problem of a study, or the object in a file that it names, has fields or nonlinear fluxes."""
    return isinstance(problem.load() if isinstance(problem, UserCode) else problem, FieldProblem)


def solve_fields(
    data: FieldData, run: Discretisation, tolerance: float = 1e-13, keep: bool = True, share: Share = afresh
) -> FieldSolution:
    """Solve in one retained space for each field (eq:retained_basis).

    Raises ParameterError for an integrator that cannot advance the fields, EmptySpaceError, and DivergedError if
    Newton's method does not converge.
    """
    check_integrator(run.integrator)
    spaces = [_space(data.problem.box(each), run, share) for _, each in data.problem.fields]
    rules = {name: rule for space in spaces for name, rule in space.quadrature.faces.items()}
    system = FluxSystem(data.terms, [FieldSpace.of(space, rules) for space in spaces])
    return march_fields(system, run.integrator, run.grid, tolerance, keep)


def _space(box: Box, run: Discretisation, share: Share) -> RetainedSpace:
    def make() -> RetainedSpace:
        trial = trial_functions(box, box.features(run.dictionary, run.seed), box.quadrature(run.quadrature))
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
        """Return the settings that identify it."""
        return {"tolerance": self.tolerance, "factors": self.factors}

    @property
    def label(self) -> str:
        """Text of the settings in a result."""
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
    seed: int = parameter_field("an integer >= 0", integer(0), "seed of the dictionary's random draws", default=0)
    tau: float = same_as(EvolutionParameters, "tau")
    quadrature: Rule = same_as(EvolutionParameters, "quadrature")
    validation: Rule = same_as(EvolutionParameters, "validation")
    dt: float = same_as(EvolutionParameters, "dt")
    final_time: float = same_as(EvolutionParameters, "final_time")
    time_integrator: str = same_as(EvolutionParameters, "time_integrator")
    reference: str | None = parameter_field(
        f"{EXACT}, {REFINED} or {ELEMENTS} for nonlinear fluxes and several fields",
        choice((EXACT, REFINED, ELEMENTS)), "what errors are measured against", "the exact solution where left out",
        optional=True,
    )  # fmt: skip
    reference_points: int | None = same_as(EvolutionParameters, "reference_points")
    reference_dt: float | None = same_as(EvolutionParameters, "reference_dt")
    newton: Newton | None = parameter_field(
        '{ tolerance = 1e-13, factors = "kept" or "fresh" }', Newton.read, "Newton's method", optional=True
    )


@dataclass(frozen=True, eq=False)
class FieldMethod(ProblemMethod):
    """The method for one problem with several fields or nonlinear fluxes."""

    solves_fields = True

    kind: type[FieldCase]

    @staticmethod
    def of(spec: MethodSpec, kind: type[FieldCase]) -> FieldMethod:
        """Make the method of `spec`.  Raises StudyError if an output does not exist."""
        method = FieldMethod.declared(spec, declared_parameters(kind.PARAMETERS), RECORDABLE_FIELDS, kind=kind)
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
        dictionary = ("quadrature", "dictionary", *self.of_kinds.get("dictionary", ()), "seed", "tau")
        return tuple(name for name in dictionary if name in self.parameters)

    def bind(self, values: Values) -> FieldCase:
        return self.kind(self, values)

    def required(self, values: Values) -> tuple[str, ...]:
        more = ("reference_points",) if values.get("reference") == ELEMENTS else ()
        return super().required(values) + more

    def is_measured(self, reference: Value | None) -> bool:
        """Return True if errors are measured."""
        return bool(self.source.has_exact) or reference in (REFINED, ELEMENTS)

    def scalars(self, values: Values) -> tuple[str, ...]:
        reference = values.get("reference")
        errors = ("error", *(f"error_{name}" for name in self.problem_names)) if self.is_measured(reference) else ()
        own = ("reference_error",) if reference in (REFINED, ELEMENTS) else ()
        return (*errors, *own, *self.kind.SCALARS)


class FieldCase(ProblemCase):
    """One run for several fields or nonlinear fluxes."""

    PARAMETERS: ClassVar[Any]
    SCALARS: ClassVar[tuple[str, ...]]
    method: FieldMethod

    def __init__(self, method: FieldMethod, values: Values) -> None:
        self.method, self.values = method, values

    @cached_property
    def given(self) -> Any:
        """Parameter values as objects."""
        return make_typed(self.PARAMETERS, self.values)

    @cached_property
    def grid(self) -> TimeGrid:
        """The time grid.  Raises ParameterError."""
        output = self.method.output
        return TimeGrid.of(self.given.final_time, self.given.dt, output.times if output.record else 2)

    @property
    def newton(self) -> tuple[float, bool]:
        """Tolerance of Newton's method, and whether its factors are kept."""
        newton = self.given.newton or Newton()
        return newton.tolerance, newton.factors == _KEPT

    @property
    def times_text(self) -> str:
        return canonical_json(self.grid.saved_times.tolist()) if self.method.output.record else "null"

    @property
    def stages(self) -> Mapping[str, Hashable]:
        return {}

    def check(self) -> None:
        problem: Any = self.method.problem(self.values)
        len(self.grid.saved_times)  # raises where they do not fit
        quadrature_of("validation", self.given.validation, problem)
        if not self.method.is_measured(self.values.get("reference")) and "error_history" in self.method.output.record:
            raise StudyError("`record` must leave out error_history without exact solution or reference")
        self.check_fields(problem)

    @abstractmethod
    def check_fields(self, data: FieldData) -> None:
        """Raise InputError if the method cannot solve the problem."""

    @abstractmethod
    def solve(self, data: FieldData, share: Share) -> FieldSolution:
        """Return the solution at the observed times."""

    def make_reference(self, data: FieldData) -> Reference | None:
        """Return the reference in place of the exact solution.  By default there is none."""
        return None

    @abstractmethod
    def diagnose(self, solution: FieldSolution) -> dict[str, float]:
        """Return values of the `SCALARS` of the method."""

    def run(self, share: Share) -> Record:
        data: Any = self.method.shared_problem(self.values, share)
        solution = self.solve(data, share)
        variables = {name: _scalar(value) for name, value in self.diagnose(solution).items()}
        reference = self.make_reference(data)
        if reference is not None or data.problem.has_exact:
            variables |= self._errors(data, solution, reference)
        return finite(self._with_outputs(data, solution, variables))

    def _errors(self, data: FieldData, solution: FieldSolution, reference: Reference | None) -> dict[str, Datum]:
        rule, times = data.domain.quadrature(self.given.validation), self.grid.observed_times
        variables = dict[str, Datum]()
        if reference is not None:
            reference = ReferenceAmongWorkers(reference, self.method.problem_identity(self.values))
            known = reference(rule.nodes, times)
            variables["reference_error"] = _scalar(estimate_error(reference, known[-1], rule, times[-1:]))
        else:
            known = np.stack([data.exact(rule.nodes, t) for t in times.tolist()])
        errors = _relative(solution.evaluate(rule.nodes), known, rule.weights)
        variables["error"] = _scalar(errors[-1].max())
        for name, each in zip(data.problem.names, errors[-1], strict=True):
            about = {"long_name": f"relative L2 error of {name} at the final time", "units": "1"}
            variables[f"error_{name}"] = Datum((), np.asarray(each), about)
        if "error_history" in self.method.output.record:
            variables["error_history"] = Datum(("time",), errors[self.grid.saved_positions].max(axis=1))
        return variables

    def _with_outputs(self, data: FieldData, solution: FieldSolution, variables: dict[str, Datum]) -> Record:
        wanted, grid = self.method.output.record, self.grid
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


class FieldEvolutionCase(FieldCase):
    """One run of the paper's method."""

    NAME = "field_evolution"
    PARAMETERS = FieldParameters
    SCALARS = ("rank", "mass_defect")

    @cached_property
    def discretisation(self) -> Discretisation:
        """All settings except the problem."""
        given, dictionary = self.given, dictionary_of(self.values)
        return Discretisation(
            dictionary=dictionary, seed=given.seed if dictionary.RANDOM else 0, tau=given.tau,
            quadrature=given.quadrature, validation=given.validation, grid=self.grid,
            integrator=integrator_of(self.values),
        )  # fmt: skip

    def list_unused(self) -> tuple[str, ...]:
        reference = self.values.get("reference")
        unused = ("reference", "reference_dt") if reference in (None, EXACT) else ()
        return unused if reference == ELEMENTS else (*unused, "reference_points")

    @property
    def stages(self) -> Mapping[str, Hashable]:
        run = self.discretisation
        return {"retained space": (run.dictionary, run.seed, run.quadrature, run.tau)}

    def check_fields(self, data: FieldData) -> None:
        check_integrator(self.discretisation.integrator)
        quadrature_of("quadrature", self.given.quadrature, data)  # type: ignore[arg-type]
        self.make_reference(data)

    @property
    def work(self) -> float | None:
        run, count = self.discretisation, len(self.method.problem_names)
        d = self.method.source.dimension or 1
        r, Q = min(run.dictionary.N, run.quadrature.count(d)), run.quadrature.count(d)
        space = count * (2 * Q * run.dictionary.N**2 + 20 * run.dictionary.N**3)
        step = 4 * ((count * r) ** 3 + count * count * (1 + d) ** 2 * Q * r * r)
        return seconds_of(float(space + run.grid.steps * step))

    def solve(self, data: FieldData, share: Share) -> FieldSolution:
        return solve_fields(data, self.discretisation, *self.newton, share)

    def diagnose(self, solution: FieldSolution) -> dict[str, float]:
        rule, defects = solution.system.rule, []
        for space in solution.system.spaces:
            gram = space.basis[0].T @ (rule.weights[:, None] * space.basis[0])
            defects.append(float(np.linalg.norm(gram - np.eye(space.size), 2)))
        return {"rank": solution.system.size, "mass_defect": max(defects)}

    def make_reference(self, data: FieldData) -> Reference | None:
        given, run = self.given, self.discretisation
        if given.reference == REFINED:
            return RefinedReference.of(partial(solve_fields, data), data.dimension, run, given.reference_dt)
        if given.reference == ELEMENTS:
            return element_reference(data, given.reference_points, run.grid, given.reference_dt)
        return None


def _scalar(value: Any) -> Datum:
    return Datum((), np.asarray(value))


def _relative(found: Array, known: Array, weights: Array) -> Array:
    """Return relative L2 errors of fields, (S, n, Q) -> (S, n)."""
    return np.stack([relative_errors(found[:, a], known[:, a], weights) for a in range(found.shape[1])], axis=1)

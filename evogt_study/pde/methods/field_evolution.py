"""The paper's method and P1 finite elements for several fields or nonlinear fluxes, as methods of a study."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from evogt_study.errors import ParameterError, StudyError
from evogt_study.formulas import SPACE
from evogt_study.methods.code import MethodSpec, UserCode
from evogt_study.methods.protocol import Method
from evogt_study.pde.baselines import references
from evogt_study.pde.domains import Box
from evogt_study.pde.galerkin.retained_space import RetainedSpace, retain, trial_functions, weighted_svd
from evogt_study.pde.galerkin.system import DenseBasis, evaluate_on_face
from evogt_study.pde.galerkin.validation import relative_errors
from evogt_study.pde.integrators.flux_system import (
    FieldSolution,
    FieldSpace,
    FluxSystem,
    check_integrator,
    march_fields,
)
from evogt_study.pde.methods.declarations import EvolutionParameters, make_dictionary, make_integrator
from evogt_study.pde.methods.problem_method import (
    ProblemCase,
    ProblemMethod,
    check_finite,
    estimate_seconds,
    make_quadrature,
    make_time_grid,
)
from evogt_study.pde.methods.recording import make_scalars
from evogt_study.pde.numerics import Labelled, Rule, TimeGrid
from evogt_study.pde.pipeline import Discretisation, Reference, Share, compute_stage, estimate_error
from evogt_study.pde.problems.fields import FieldData, FieldProblem
from evogt_study.schema.parameters import choice, integer, parameter_field, same_as
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Values

_COMPUTED = references.REFINED, references.ELEMENTS
_REFERENCES = references.EXACT, *_COMPUTED
_TOLERANCE, _KEPT, FRESH = 1e-13, "kept", "fresh"


def has_fields(problem: object) -> bool:
    """Return True if the problem of a study has several fields or nonlinear fluxes, also for a problem in a file."""
    return isinstance(problem.load() if isinstance(problem, UserCode) else problem, FieldProblem)


def solve_fields(
    data: FieldData, run: Discretisation, tolerance: float = 1e-13, keep: bool = True, share: Share = compute_stage
) -> FieldSolution:
    """Solve a problem with one retained space for each field (eq:retained_basis).

    Raises ParameterError if the integrator cannot advance the fields.  Raises DivergedError if Newton's method does not
    converge, and EmptySpaceError if a trial matrix is zero.
    """
    check_integrator(run.integrator)

    def make_space(box: Box) -> RetainedSpace:
        trial = trial_functions(box, box.features(run.dictionary, run.seed), box.quadrature(run.quadrature))
        return retain(trial, weighted_svd(trial), run.tau)

    spaces = []
    for _, each in data.problem.fields:
        box = data.problem.box(each)
        key = (run.dictionary, run.seed, run.quadrature, run.tau, box)
        spaces.append(share("retained space", key, partial(make_space, box)))
    rules = {name: rule for space in spaces for name, rule in space.quadrature.faces.items()}
    fields = []
    for space in spaces:
        interior = DenseBasis(space.quadrature, space.values, space.gradients)
        faces = {name: evaluate_on_face(space, rule) for name, rule in rules.items()}
        fields.append(FieldSpace(interior, faces, np.ones(space.rank), space.project, space.evaluate))
    system = FluxSystem(data.terms, fields)
    return march_fields(system, run.integrator, run.grid, tolerance, keep)


@dataclass(frozen=True)
class Newton(Labelled):
    """Settings of Newton's method.

    With `factors` "kept", Newton's method reuses a factorisation while the iteration contracts.  With "fresh", Newton's
    method computes a factorisation in each iteration.  Raises ParameterError for an invalid value.
    """

    tolerance: float = _TOLERANCE
    factors: str = _KEPT

    def __post_init__(self) -> None:
        if not isinstance(self.tolerance, float) or not 0.0 < self.tolerance < 1.0:
            raise ParameterError("newton", "a tolerance in (0, 1)", self.tolerance)
        if self.factors not in (_KEPT, FRESH):
            raise ParameterError("newton", f"factors {_KEPT} or {FRESH}", self.factors)

    def __str__(self) -> str:
        return f"newton({self.tolerance:g}, {self.factors})"


@dataclass(frozen=True, kw_only=True)
class FieldParameters:
    """Parameters of a case except the parameters of its dictionary, integrator and problem."""

    dictionary: str = same_as(EvolutionParameters, "dictionary")
    seed: int = parameter_field("an integer >= 0", integer(0), "seed of the dictionary's random draws", default=0)
    tau: float = same_as(EvolutionParameters, "tau")
    quadrature: Rule = same_as(EvolutionParameters, "quadrature")
    validation: Rule = same_as(EvolutionParameters, "validation")
    dt: float = same_as(EvolutionParameters, "dt")
    final_time: float = same_as(EvolutionParameters, "final_time")
    time_integrator: str = same_as(EvolutionParameters, "time_integrator")
    reference: str | None = parameter_field(
        f"{', '.join(_REFERENCES[:2])} or {_REFERENCES[2]} for nonlinear fluxes and several fields",
        choice(_REFERENCES), "what errors are measured against", "the exact solution where left out", optional=True,
    )  # fmt: skip
    reference_points: int | None = same_as(EvolutionParameters, "reference_points")
    reference_dt: float | None = same_as(EvolutionParameters, "reference_dt")
    newton: Newton | None = parameter_field(
        '{ tolerance = 1e-13, factors = "kept" or "fresh" }', Newton.read, "Newton's method", optional=True
    )


class FieldCase(ProblemCase):
    """One run of a problem with several fields or nonlinear fluxes."""

    SOLVES_FIELDS = True
    RECORDABLE = ("error_history", "field", "integral_history")

    @classmethod
    def of(cls, spec: MethodSpec) -> Method:
        method = super().of(spec)
        if shared_names := {*method.source.field_names} & {*method.parameters}:  # type: ignore[attr-defined]
            raise StudyError(f"a field must have another name than a parameter, got {min(shared_names)!r}")
        return method

    @classmethod
    def list_stage_parameters(cls, method: ProblemMethod) -> tuple[str, ...]:
        dictionary = ("quadrature", "dictionary", *method.of_kinds.get("dictionary", ()), "seed", "tau")
        return tuple(name for name in dictionary if name in method.parameters)

    @classmethod
    def list_scalars(cls, method: ProblemMethod, values: Values) -> tuple[str, ...]:
        own = ("reference_error",) if values.get("reference") in _COMPUTED else ()
        is_measured = method.source.has_exact or own
        errors = ("error", *(f"error_{name}" for name in method.source.field_names)) if is_measured else ()
        return (*errors, *own, *cls.SCALARS)

    @property
    def observed(self) -> TimeGrid:
        """Time grid of the case.  Raises ParameterError if the step or the saved times are invalid."""
        output = self.method.output
        return make_time_grid(self.given.final_time, self.given.dt, output.times if output.record else 2)

    @property
    def newton(self) -> tuple[float, bool]:
        """Tolerance of Newton's method, and True if the method keeps its factorisation from step to step."""
        newton = self.given.newton or Newton()
        return newton.tolerance, newton.factors == _KEPT

    def check_problem(self, data: FieldData) -> None:
        is_measured = self.method.source.has_exact or self.values.get("reference") in _COMPUTED
        if not is_measured and "error_history" in self.method.output.record:
            raise StudyError("`record` must leave out error_history for a problem without exact solution or reference")

    @abstractmethod
    def solve(self, data: FieldData, share: Share) -> FieldSolution:
        """Return the solution of the case at the observed times."""

    def make_reference(self, data: FieldData) -> Reference | None:
        """Return the reference for errors, or None for the exact solution, which is the default."""
        return None

    @abstractmethod
    def diagnose(self, solution: FieldSolution) -> dict[str, float]:
        """Return the values of the `SCALARS` of this method."""

    def run(self, share: Share) -> Record:
        data: Any = self.method.shared_problem(self.values, share)
        solution, wanted, grid = self.solve(data, share), self.method.output.record, self.observed
        variables, saved, names = make_scalars(self.diagnose(solution)), grid.saved_positions, data.problem.names
        coordinates = {"time": Datum(("time",), grid.saved_times)} if wanted else {}
        reference, rule, times = self.make_reference(data), data.domain.quadrature(self.given.validation), None
        if reference is not None:
            times = grid.observed_times
            reference = references.share_among_workers(reference, self.method.hash_problem(self.values))
            known = reference.values(rule.nodes, times)
            variables |= make_scalars({"reference_error": estimate_error(reference, known[-1], rule, times[-1:])})
        elif data.problem.has_exact:
            times = grid.observed_times
            known = np.stack([data.exact(rule.nodes, t) for t in times.tolist()])
        if times is not None:
            pairs = zip(np.moveaxis(solution.evaluate(rule.nodes), 1, 0), np.moveaxis(known, 1, 0), strict=True)
            errors = np.stack([relative_errors(*pair, rule.weights) for pair in pairs], axis=1)
            variables |= make_scalars({"error": errors[-1].max()})
            for name, each in zip(names, errors[-1], strict=True):
                variables[f"error_{name}"] = _describe((), each, f"relative L2 error of {name} at the final time")
            if "error_history" in wanted:
                variables["error_history"] = Datum(("time",), errors[saved].max(axis=1))
        if "integral_history" in wanted:
            rule = solution.system.rule
            integrals = solution.evaluate(rule.nodes)[saved] @ rule.weights
            for name, each in zip(names, integrals.T, strict=True):
                variables[f"integral_{name}"] = _describe(("time",), each.copy(), f"integral of {name} over the domain")
        if "field" in wanted:
            axes = data.problem.domain.axes(self.method.output.grid)
            nodes = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)
            shape, values = (len(saved), *map(len, axes)), solution.evaluate(nodes)[saved]
            for a, name in enumerate(names):
                dims = ("time", *SPACE[: len(axes)])
                variables[name] = _describe(dims, values[:, a].reshape(shape), f"field {name}")
            coordinates |= {x: Datum((x,), along) for x, along in zip(SPACE, axes, strict=False)}
        return check_finite(Record(variables, coordinates))


def _describe(dims: tuple[str, ...], values: Any, long_name: str) -> Datum:
    return Datum(dims, np.asarray(values), {"long_name": long_name, "units": "1"})


class FieldEvolutionCase(FieldCase):
    """One run of the paper's method for several fields or nonlinear fluxes."""

    NAME = "field_evolution"
    PARAMETERS = FieldParameters
    SCALARS = ("rank", "mass_defect")

    @cached_property
    def discretisation(self) -> Discretisation:
        """Settings of the run except the problem."""
        given, dictionary = self.given, make_dictionary(self.values)
        return Discretisation(
            dictionary=dictionary, seed=given.seed if dictionary.RANDOM else 0, tau=given.tau,
            quadrature=given.quadrature, validation=given.validation, grid=self.observed,
            integrator=make_integrator(self.values),
        )  # fmt: skip

    def list_unused(self) -> tuple[str, ...]:
        reference = self.values.get("reference")
        unused = ("reference", "reference_dt") if reference in (None, references.EXACT) else ()
        return unused if reference == references.ELEMENTS else (*unused, "reference_points")

    @property
    def stages(self) -> Mapping[str, Hashable]:
        run = self.discretisation
        return {"retained space": (run.dictionary, run.seed, run.quadrature, run.tau)}

    def check_problem(self, data: FieldData) -> None:
        super().check_problem(data)
        check_integrator(self.discretisation.integrator)
        make_quadrature("quadrature", self.given.quadrature, data)  # type: ignore[arg-type]
        self.make_reference(data)

    @property
    def work(self) -> float | None:
        run, count = self.discretisation, len(self.method.source.field_names)
        d = self.method.source.dimension or 1
        r, Q = min(run.dictionary.N, run.quadrature.count(d)), run.quadrature.count(d)
        space = count * (2 * Q * run.dictionary.N**2 + 20 * run.dictionary.N**3)
        step = 4 * ((count * r) ** 3 + count * count * (1 + d) ** 2 * Q * r * r)
        return estimate_seconds(float(space + run.grid.steps * step))

    def solve(self, data: FieldData, share: Share) -> FieldSolution:
        return solve_fields(data, self.discretisation, *self.newton, share)

    def diagnose(self, solution: FieldSolution) -> dict[str, float]:
        rule, defects = solution.system.rule, []
        for space in solution.system.spaces:
            gram = space.basis[0].T @ (rule.weights[:, None] * space.basis[0])
            defects.append(float(np.linalg.norm(gram - np.eye(len(gram)), 2)))
        return {"rank": solution.system.initial.size, "mass_defect": max(defects)}

    def make_reference(self, data: FieldData) -> Reference | None:
        given = self.given
        options = given.reference_points, given.reference_dt
        return references.make_reference(given.reference, data, self.discretisation, *options, solve_fields)

"""The paper's method as the sweep runs it: parameters to a `Discretisation`, and a `Solution` to a record."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from evogt_study.baselines.finite_difference import (
    FiniteDifferenceReference,
    check_differences,
    finite_difference_flops,
    finite_difference_memory,
)
from evogt_study.errors import ProblemError, StudyError
from evogt_study.methods.evolution_parameters import PARAMETERS
from evogt_study.methods.integrator_parameters import integrator_of
from evogt_study.methods.problem_method import (
    ProblemMethod,
    check_diffusion_on_nodes,
    dictionary_of,
    finite,
    quadrature_of,
    seconds_of,
)
from evogt_study.methods.protocol import MethodSpec
from evogt_study.methods.recordable import RECORDABLE, record
from evogt_study.methods.reference_cache import ReferenceAmongWorkers
from evogt_study.numerics.coefficient_reference import CoefficientReference
from evogt_study.numerics.dictionaries.base import BLOCK_ENTRIES
from evogt_study.numerics.pipeline import Discretisation, Reference, Share, solve, stage_keys
from evogt_study.numerics.problem import Problem, Separable
from evogt_study.numerics.time_grid import TimeGrid
from evogt_study.schema.doubts import warn_outside_ball
from evogt_study.schema.records import Record
from evogt_study.schema.values import Values, content_hash

FRAGMENTED = 1.25
"""Resident memory for each byte of large arrays: what is freed between them does not all go back."""
TANH, FACTORED, DOP853 = 25, 30, 12
"""Operations of the rough work: of a tanh and its derivatives; of an SVD or eigendecomposition by N^3; stages of a step
of the reference of the coefficients."""
_NOTHING_TO_MEASURE_AGAINST = (
    "`record` must leave out error_history for a problem without exact solution or reference (output.record)"
)


@dataclass(frozen=True, eq=False)
class Evolution(ProblemMethod):
    """Evo-GTransNet (Algorithm 1) for one problem and one choice of outputs."""

    checked: set[str] = field(default_factory=set, repr=False)

    @staticmethod
    def of(spec: MethodSpec) -> Evolution:
        """Raises StudyError where the problem or the outputs cannot be had."""
        return Evolution.declared(spec, PARAMETERS, RECORDABLE)

    def scalars(self, values: Values) -> tuple[str, ...]:
        known = ["initial_error", "rank", "retained_condition", "raw_resolution", "mass_defect", "quadrature_defect"]
        if self.has_final_error(values):
            known.insert(0, "error")
        if "coefficient_reference" in values:
            known.append("coefficient_error")
        if "assessment" in values:
            known += ["mass_defect_cross_grid", "stiffness_defect_cross_grid"]
        if self.source.has_potential is not False:
            known += ["energy_drop_percent", "energy_increment"]
        return tuple(known)

    def has_final_error(self, values: Values) -> bool:
        """Whether there may be something to measure the final error against: a factory's problem may be anything."""
        return values.get("reference") == "finite_difference" or self.source.has_exact is not False

    def required(self, values: Values) -> tuple[str, ...]:
        more = ("reference_points",) if values.get("reference") == "finite_difference" else ()
        return super().required(values) + more

    def check(self, values: Values) -> None:
        run = self.discretisation(values)
        if self.source.dimension is not None:
            run.dictionary.check_dimension(self.source.dimension)
            warn_outside_ball(run.dictionary, self.source.dimension)
        if not self.output.record:  # then no time is saved, but what the file says has to make sense all the same
            TimeGrid.of(run.grid.final_time, run.grid.dt, self.output.times)
        elif "error_history" in self.output.record and not self.has_final_error(values):
            raise StudyError(_NOTHING_TO_MEASURE_AGAINST)
        steps = (run.grid.final_time, run.grid.steps, values["time_integrator"], asdict(run.integrator))
        rules = (run.quadrature, run.validation, run.assessment or 0)
        key = content_hash(
            [
                self.problem_identity(values),
                *rules,
                *steps,
                run.dictionary.family,
                run.dictionary.content().get("centre", ""),
                self.reference_identity(values),
                values.get("reference", ""),
                values.get("coefficient_reference", ""),
            ]
        )
        if key not in self.checked:  # many cases have the same problem, and looking at all of its nodes takes time
            with np.errstate(all="ignore"):
                self.check_problem(values, run, self.problem(values))
            self.checked.add(key)

    def check_problem(self, values: Values, run: Discretisation, problem: Problem) -> None:
        """Raise InputError where the problem's data and the run's parameters do not fit together."""
        self.check_reference(values, problem)
        self.check_record(values, problem)
        if run.coefficient_reference is not None:
            run.coefficient_reference.check(problem)
        run.integrator.check(problem)
        run.dictionary.check_dimension(problem.dimension)
        check_diffusion_on_nodes(problem, run.quadrature, run.integrator.times(run.grid), self.source.name)
        quadrature_of("validation", run.validation, problem)
        if run.assessment is not None:
            quadrature_of("assessment", run.assessment, problem)

    def check_reference(self, values: Values, problem: Problem) -> None:
        """Raise InputError where errors cannot be measured as they are asked for."""
        reference = self.reference(values, problem)
        if reference is not None:
            check_differences(problem, reference.points, reference.integrator, "reference_points")
        elif problem.exact is None and values.get("reference") == "exact":
            raise ProblemError("`exact` must be known where `reference` asks for it, got a problem without it")
        elif problem.exact is None and "error_history" in self.output.record:
            raise StudyError(_NOTHING_TO_MEASURE_AGAINST)

    def check_record(self, values: Values, problem: Problem) -> None:
        """Raise StudyError where something is to be recorded that the run does not have."""
        if problem.potential is None and "free_energy_history" in self.output.record:
            raise StudyError(
                "`record` must leave out free_energy_history for a problem without potential (output.record)"
            )
        if "coefficient_reference" not in values and "reference_coefficients" in self.output.record:
            raise StudyError(
                "`record` must leave out reference_coefficients without coefficient_reference (output.record)"
            )

    def identity(self, values: Values) -> Mapping[str, Any]:
        identity = {
            "method": "evolution",
            "version": 1,  # raised when the same parameters come to mean other numbers
            "time_integrator": values["time_integrator"],
            "problem": self.problem_identity(values),
            "run": _content(self.discretisation(values)),
            "record": sorted(self.output.record),
            "grid": self.output.grid if "field" in self.output.record else None,
        }
        reference = self.reference_identity(values)
        return identity | ({"reference": reference} if reference else {})

    def reference_identity(self, values: Values) -> dict[str, Any]:
        """The parameters of the reference, where it is not the exact solution."""
        if values.get("reference") != "finite_difference":
            return {}
        names = ("reference", "reference_points", "reference_dt")
        same = values.get("reference_dt") == values["dt"]
        return {name: values[name] for name in names if name in values and not (same and name == "reference_dt")}

    def stages(self, values: Values) -> Mapping[str, Hashable]:
        problem = content_hash(self.problem_identity(values))
        reference = content_hash(self.reference_identity(values))
        return stage_keys(problem, self.source.dimension or 0, self.discretisation(values), reference)

    def leading(self) -> tuple[str, ...]:
        return (
            "validation",
            "assessment",
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

    def sizes(self) -> tuple[str, ...]:
        return (
            "dictionary", "N", "N1", "hidden", "quadrature", "validation", "assessment", "dt", "final_time",
            "time_integrator", "reference", "reference_points", "reference_dt", "coefficient_reference",
            "coefficient_max_step",
        )  # fmt: skip

    def work(self, values: Values) -> float | None:
        problem, run = self.example(values), self.discretisation(values)
        if problem is None:
            return None
        flops = rough_flops(run, problem)
        if values.get("reference") == "finite_difference":
            given: dict[str, Any] = dict(values)
            steps = run.grid.refined(given.get("reference_dt", given["dt"])).steps
            flops += finite_difference_flops(problem, given["reference_points"], steps)
        return seconds_of(flops)

    def memory(self, values: Values) -> float:
        run, dimension = self.discretisation(values), self.dimension(values)
        nodes, validation = run.quadrature.points**dimension, run.validation.points**dimension
        N = run.dictionary.N
        trial = nodes * N * (1 + (dimension if len(run.dictionary.widths) > 1 else 1))
        retained = nodes * N * (1 + dimension)
        widths = run.dictionary.widths
        layers = sum(map(operator.mul, widths, widths[1:])) * (1 + dimension) + 2 * BLOCK_ENTRIES * (1 + dimension)
        assessed = 0 if run.assessment is None else run.assessment.points**dimension * N * dimension
        checked = validation * (N + len(run.grid.observed) * 3)
        most = max(trial + 3 * nodes * N, trial + retained, retained + checked + assessed)
        return float(8.0 * (layers + FRAGMENTED * most)) + self.reference_memory(values, run, dimension)

    def reference_memory(self, values: Values, run: Discretisation, dimension: int) -> float:
        """Bytes of the finite-difference reference, where errors are measured against one."""
        given: dict[str, Any] = dict(values)
        if given.get("reference") != "finite_difference":
            return 0.0
        return finite_difference_memory(dimension, given["reference_points"], len(run.grid.observed))

    def discretisation(self, values: Values) -> Discretisation:
        """The run's scalars.  Raises ParameterError where they do not fit together."""
        given: dict[str, Any] = dict(values)
        dictionary = dictionary_of(values)
        return Discretisation(
            dictionary=dictionary,
            seed=given["seed"] if dictionary.RANDOM else 0,  # so that runs of all seeds are one
            tau=given["tau"],
            quadrature=given["quadrature"],
            validation=given["validation"],
            grid=TimeGrid.of(given["final_time"], given["dt"], self.output.times if self.output.record else 2),
            integrator=integrator_of(values),
            assessment=given.get("assessment"),
            coefficient_reference=_coefficient_reference(given),
        )

    def reference(self, values: Values, problem: Problem) -> FiniteDifferenceReference | None:
        """What errors are measured against instead of the exact solution.  Raises ParameterError for its time step."""
        given: dict[str, Any] = dict(values)
        if given.get("reference") != "finite_difference":
            return None
        run = self.discretisation(values)
        dt = given.get("reference_dt", given["dt"])
        return FiniteDifferenceReference(problem, given["reference_points"], run.grid.refined(dt), run.integrator)

    def run(self, values: Values, share: Share) -> Record:
        problem = self.shared_problem(values, share)
        reference: Reference | None = self.reference(values, problem)
        if reference is not None:
            reference = ReferenceAmongWorkers(reference, content_hash(self.problem_identity(values)))
        solution = solve(problem, self.discretisation(values), share, reference)
        return finite(record(solution, self.output))


def rough_flops(run: Discretisation, problem: Problem) -> float:
    """Rough operations of a run that shares nothing, with min(N, Q) in place of the rank r (app:scaling)."""
    d, widths, N, steps = problem.dimension, run.dictionary.widths, run.dictionary.N, run.grid.steps
    Q, V = run.quadrature.points**d, run.validation.points**d
    A = 0 if run.assessment is None else run.assessment.points**d
    r = min(N, Q)
    layers = 2 * sum(map(operator.mul, widths, widths[1:])) + TANH * sum(widths)
    features = layers * ((1 + d) * (Q + A) + V)
    space = 2 * Q * N**2 + FACTORED * N**3 + 2 * (1 + d) * (Q + A) * N * r
    stiffness = d * (Q + A) * r**2
    step = 2 * r**2  # states of all steps from the eigenbasis of K
    if not problem.diffusion.steady:
        step = r**3 / 3 + 20 * r**2 + (0 if isinstance(problem.diffusion, Separable) else d * Q * r**2)
    rates = 0.0
    if run.coefficient_reference is not None and run.coefficient_reference.name != "eigendecomposition":
        rates = DOP853 * max(50, run.grid.final_time / (run.coefficient_reference.max_step or np.inf)) * step
    reaction = (4 * r + TANH) * Q * steps if problem.potential is not None else 0
    observed = 2 * len(run.grid.observed) * N * V
    return float(features + space + stiffness + step * steps + rates + reaction + observed)


def _coefficient_reference(given: Mapping[str, Any]) -> CoefficientReference | None:
    name = given.get("coefficient_reference")
    if name is None:
        return None
    if name == "eigendecomposition":
        return CoefficientReference(name)
    settings = {key: given.get(f"coefficient_{key}") for key in ("rtol", "atol", "max_step")}
    return CoefficientReference(name, **{key: value for key, value in settings.items() if value is not None})


def _content(run: Discretisation) -> dict[str, Any]:
    """The discretisation as JSON-able content; what a run does not use is no part of it."""
    content = {name: part for name, part in asdict(run).items() if part is not None}
    own = {name: value for name, value in content.pop("integrator").items() if value != 0}  # its type is named beside
    return content | {"dictionary": run.dictionary.content()} | ({"integrator": own} if own else {})

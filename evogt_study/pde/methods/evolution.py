"""The paper's method, Evo-GTransNet, as the method `evolution` of a study, for one or several fields."""

import operator
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from evogt_study.errors import DivergedError, ParameterError, ProblemError, StudyError
from evogt_study.methods.code import Output
from evogt_study.pde.baselines import references
from evogt_study.pde.baselines.finite_difference import estimate_difference_memory
from evogt_study.pde.certificates import certify as certificates
from evogt_study.pde.certificates.bound import list_knot_steps
from evogt_study.pde.dictionaries.base import BLOCK_ENTRIES
from evogt_study.pde.domains import Box
from evogt_study.pde.galerkin.problem import Problem, Separable
from evogt_study.pde.galerkin.system import (
    SVD,
    RetainedSpace,
    check_diffusion,
    compute_weighted_svd,
    evaluate_on_face,
    make_trial,
    retain,
)
from evogt_study.pde.galerkin.validation import (
    CoefficientReference,
    compute_energy_history,
    compute_errors,
    compute_norm_history,
)
from evogt_study.pde.integrators import flux_system
from evogt_study.pde.integrators.flux_system import FieldSolution
from evogt_study.pde.methods import declarations
from evogt_study.pde.methods.problem_method import (
    ProblemCase,
    ProblemMethod,
    check_finite,
    estimate_seconds,
    make_data,
    make_quadrature,
    make_time_grid,
    make_uniform_grid,
    measure_energies,
    report_user_errors,
    sample_fields,
)
from evogt_study.pde.numerics import Array, Labelled, TimeGrid
from evogt_study.pde.pipeline import (
    NORMS,
    Discretisation,
    Reference,
    Share,
    Solution,
    compute_stage,
    estimate_error,
    list_stage_keys,
    solve_arrays,
)
from evogt_study.pde.problems.fields import FieldData
from evogt_study.schema.parameters import Parameter, choice
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Value, Values, dump_canonical, dump_json, hash_text
from evogt_study.storage.arrays import load_or_compute

T = TypeVar("T")

HISTORIES = (
    "error_history", "energy_history", "norm_history", "free_energy_history", "coefficients", "reference_coefficients",
    "singular_values",
)  # fmt: skip
"""Names of the arrays that a record can contain without a uniform grid."""
STAGE_SECONDS = "stage_seconds"
STAGES = (
    "trial functions", "weighted SVD", "retained space", "diffusion check", "nodal data", "Galerkin system",
    "trajectory",
)  # fmt: skip
"""Names of the measured stages.  All stages except the last precede the time steps."""
RESIDENT_SHARE = 1.25
"""Resident memory per byte of large arrays.  It exceeds 1, because the system does not regain all freed memory."""
TANH_FLOPS, SVD_FLOPS = 25, 30
"""Estimated operations of a tanh with its derivatives, and of an SVD divided by N^3."""
NO_SOLUTION = "`record` must leave out {} for a problem without exact solution or reference (output.record)"
_COMPUTED = references.REFINED, references.ELEMENTS
_REFERENCES = references.EXACT, *_COMPUTED
_TOLERANCE, _KEEP_FACTORS, _FRESH_FACTORS = 1e-13, "kept", "fresh"


class StageClock:
    """A `Share` that measures the CPU seconds of each stage without its inner stages."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)
        self._inside = [0.0]

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the result of `stage`, and measure the time if the stage is computed."""

        def measure() -> T:
            self._inside.append(0.0)
            start = time.process_time()
            try:
                return compute()
            finally:
                spent = time.process_time() - start
                self.seconds[stage] = self.seconds.get(stage, 0.0) + spent - self._inside.pop()
                self._inside[-1] += spent

        return self.share(stage, key, measure)

    def add_to(self, record: Record) -> Record:
        """Return the record with the seconds of each stage and the sums over offline and online stages."""
        seconds = np.array([self.seconds[name] for name in STAGES])
        sums = {"offline_seconds": seconds[:-1].sum(), "online_seconds": seconds[-1]}
        variables, stages = make_data({**sums, STAGE_SECONDS: seconds}), make_data({"stage": np.array(STAGES)})
        return Record({**record.variables, **variables}, {**record.coordinates, **stages})


def select_arrays(output: Output) -> tuple[str, ...]:
    """Return the names in `output.record` except the certificates and the seconds of stages."""
    return tuple(name for name in output.record if name not in certificates.CERTIFICATES and name != STAGE_SECONDS)


def make_record(solution: Solution, output: Output, certified: Mapping[str, float]) -> Record:
    """Return the record of a solution with the scalars, the certificates and the arrays in `output.record`."""
    space, trajectory, system, problem = solution.space, solution.trajectory, solution.system, solution.problem
    energies = trajectory.energies if problem.potential is not None else None
    error, reference_error = solution.errors[-1] if solution.has_final_error else None, solution.reference_error
    share = None if reference_error is None or error is None or not error > 0.0 else reference_error / error
    known: dict[str, Any] = {
        "error": error, "initial_error": solution.errors[0],
        "rank": space.rank, "retained_condition": space.condition, "raw_resolution": solution.svd.raw_resolution,
        "mass_defect": space.mass_defect, "quadrature_defect": solution.quadrature_defect,
        **declarations.measure_reach(solution.discretisation.dictionary, problem.dimension),
        "coefficient_error": solution.coefficient_error, **solution.cross_grid,
        "reference_error": reference_error, "reference_share": share,
        **({} if energies is None else measure_energies(energies)), **solution.norms, **certified,
    }  # fmt: skip
    wanted, grid = select_arrays(output), solution.discretisation.grid
    saved = grid.saved_positions
    makers: dict[str, Callable[[], Array | None]] = {
        "error_history": lambda: solution.errors[saved] if solution.has_final_error else None,
        "energy_history": lambda: compute_energy_history(system, trajectory)[saved],
        "norm_history": lambda: compute_norm_history(system, trajectory)[saved],
        "free_energy_history": lambda: None if energies is None else energies[list(grid.saved)],
        "coefficients": lambda: trajectory.coefficients[saved],
        "reference_coefficients": lambda: solution.reference_state,
        "singular_values": lambda: solution.svd.singular_values,
    }
    variables = make_data(known | {name: make() for name, make in makers.items() if name in wanted})
    fields, coordinates = sample_fields(solution.evaluate, problem, grid, wanted, output.grid)
    return Record(variables | fields, coordinates)


def check_norms(problem: Problem, wanted: Collection[str]) -> None:
    """Raise ProblemError if `wanted` has error_h1 and the gradient of the exact solution is unknown."""
    if "error_h1" in wanted and problem.exact_gradient is None:
        raise ProblemError("`record` must leave out error_h1 for a problem without `exact` as a formula")


def compute_record(
    problem: Problem, run: Discretisation, output: Output, share: Share, reference: Reference | None, identity: str
) -> tuple[Solution, Record]:
    """Solve the problem with the hash `identity`, and return the solution with its record.  Raises RunError."""
    wanted = certificates.select_certificates(output.record)
    # the certificates interpolate states between the saved states
    passed = list_knot_steps(run.grid, problem.dimension) if wanted else ()
    solution = solve_arrays(problem, run, share, reference, [name for name in NORMS if name in output.record], passed)
    if not np.isfinite(solution.trajectory.coefficients).all():
        raise DivergedError("the coefficients are not finite at all saved times")
    needed = {*certificates.BY_REFERENCE, *(() if problem.exact is not None else certificates.BY_EXACT)}
    spectral = None if needed.isdisjoint(wanted) else share_reference(problem, run.grid.final_time, share, identity)
    certified = certificates.certify(solution, wanted, share, identity, spectral) if wanted else {}
    return solution, make_record(solution, output, certified)


def share_reference(problem: Problem, final_time: float, share: Share, identity: str) -> certificates.SpectralReference:
    """Return the spectral reference of a problem, which one worker computes for all workers."""

    def computed() -> certificates.SpectralReference:
        name = hash_text(dump_canonical(["spectral reference", identity, final_time]))
        packed = load_or_compute(name, lambda: certificates.find_reference(problem, final_time).pack())
        return certificates.SpectralReference.unpack(packed, problem.domain)

    return share("spectral reference", (identity, final_time), computed)


def solve_fields(
    data: FieldData, run: Discretisation, tolerance: float = 1e-13, keep: bool = True, share: Share = compute_stage
) -> FieldSolution:
    """Solve a problem with one retained space for each field (eq:retained_basis).  Raises RunError."""
    flux_system.check_integrator(run.integrator)

    def make_space(box: Box) -> RetainedSpace:
        trial = make_trial(box, box.features(run.dictionary, run.seed), box.quadrature(run.quadrature))
        return retain(trial, compute_weighted_svd(trial), run.tau)

    spaces = []
    for _, each in data.problem.fields:
        box = data.problem.box(each)
        key = (run.dictionary, run.seed, run.quadrature, run.tau, box)
        spaces.append(share("retained space", key, partial(make_space, box)))
    rules = {name: rule for space in spaces for name, rule in space.rule.faces.items()}
    fields = []
    for space in spaces:
        faces = {name: evaluate_on_face(space, rule) for name, rule in rules.items()}
        fields.append(flux_system.FieldSpace(space, faces, np.ones(space.rank), space.project, space.evaluate))
    system = flux_system.FluxSystem(data.terms, fields)
    return flux_system.march_fields(system, run.integrator, run.grid, tolerance, keep)


@dataclass(frozen=True)
class Newton(Labelled):
    """Settings of Newton's method, which reuses its factors ("kept") or factorises in each iteration ("fresh")."""

    tolerance: float = _TOLERANCE
    factors: str = _KEEP_FACTORS

    def __post_init__(self) -> None:
        if not isinstance(self.tolerance, float) or not 0.0 < self.tolerance < 1.0:
            raise ParameterError("newton", "a tolerance in (0, 1)", self.tolerance)
        if self.factors not in (_KEEP_FACTORS, _FRESH_FACTORS):
            raise ParameterError("newton", f"factors {_KEEP_FACTORS} or {_FRESH_FACTORS}", self.factors)

    def __str__(self) -> str:
        return f"newton({self.tolerance:g}, {self.factors})"


FIELD_PARAMETERS = declarations.declare_parameters(
    "dictionary", replace(declarations.EVOLUTION["seed"], default=0), "tau", "quadrature", "validation", "dt",
    "final_time", "time_integrator",
    Parameter("reference", f"{', '.join(_REFERENCES[:2])} or {_REFERENCES[2]} for nonlinear fluxes and several fields",
        choice(_REFERENCES), "what errors are measured against", "the exact solution where left out", optional=True),
    "reference_points", "reference_dt",
    Parameter("newton", '{ tolerance = 1e-13, factors = "kept" or "fresh" }', Newton.read, "Newton's method",
        optional=True),
)  # fmt: skip
"""Parameters of the paper's method for several fields or nonlinear fluxes."""


class FieldCase(ProblemCase):
    """One run of a problem with several fields or nonlinear fluxes."""

    SOLVES_FIELDS = True
    RECORDABLE = ("error_history", "field", "integral_history")

    @classmethod
    def list_stage_parameters(cls, method: ProblemMethod) -> tuple[str, ...]:
        dictionary = ("quadrature", "dictionary", *method.kind_parameters.get("dictionary", ()), "seed", "tau")
        return tuple(name for name in dictionary if name in method.parameters)

    @classmethod
    def list_scalars(cls, method: ProblemMethod, values: Values) -> tuple[str, ...]:
        own = ("reference_error",) if values.get("reference") in _COMPUTED else ()
        is_measured = method.source.has_exact or own
        errors = ("error", *(f"error_{name}" for name in method.source.field_names)) if is_measured else ()
        return (*errors, *own, *cls.SCALARS)

    @property
    def observed(self) -> Any:
        """Time grid of the case.  Without recorded arrays, the errors need only the final time."""
        times = self.method.output.times if self.method.output.record else 2
        return make_time_grid(self.given.final_time, self.given.dt, times)

    @property
    def newton(self) -> tuple[float, bool]:
        """Tolerance of Newton's method, and True if the method keeps its factorisation from step to step."""
        newton = self.given.newton or Newton()
        return newton.tolerance, newton.factors == _KEEP_FACTORS

    def check_problem(self, data: FieldData) -> None:
        is_measured = self.method.source.has_exact or self.values.get("reference") in _COMPUTED
        if not is_measured and "error_history" in self.method.output.record:
            raise StudyError("`record` must leave out error_history for a problem without exact solution or reference")

    @abstractmethod
    def solve(self, data: FieldData, share: Share) -> tuple[FieldSolution, dict[str, float]]:
        """Return the solution of the case at the observed times, and the values of the `SCALARS` of the method."""

    def make_reference(self, data: FieldData) -> Reference | None:
        """Return the reference for errors, or None for the exact solution, which is the default."""
        return None

    def run(self, share: Share) -> Record:
        data: Any = self.method.share_problem(self.values, share)
        (solution, scalars), wanted, grid = self.solve(data, share), self.method.output.record, self.observed
        variables, saved, names = make_data(scalars), grid.saved_positions, data.problem.names
        coordinates = make_data({"time": grid.saved_times if wanted else None})
        reference, rule, known = self.make_reference(data), data.domain.quadrature(self.given.validation), None
        times = grid.observed_times
        if reference is not None:
            reference = references.share_among_workers(reference, self.method.hash_problem(self.values))
            known = reference.values(rule.nodes, times)
            variables |= make_data({"reference_error": estimate_error(reference, known[-1], rule, times[-1:])})
        elif data.problem.has_exact:
            known = np.stack([data.exact(rule.nodes, t) for t in times.tolist()])
        if known is not None:
            pairs = zip(np.moveaxis(solution.evaluate(rule.nodes), 1, 0), np.moveaxis(known, 1, 0), strict=True)
            errors = np.stack([compute_errors(*pair, rule.weights) for pair in pairs], axis=1)
            history = errors[saved].max(axis=1) if "error_history" in wanted else None
            variables |= make_data({"error": errors[-1].max(), "error_history": history})
            for name, each in zip(names, errors[-1], strict=True):
                variables[f"error_{name}"] = _describe((), each, f"relative L2 error of {name} at the final time")
        if "integral_history" in wanted:
            rule = solution.system.rule
            integrals = solution.evaluate(rule.nodes)[saved] @ rule.weights
            for name, each in zip(names, integrals.T, strict=True):
                variables[f"integral_{name}"] = _describe(("time",), each.copy(), f"integral of {name} over the domain")
        if "field" in wanted:
            nodes, axes = make_uniform_grid(data.domain, self.method.output.grid)
            shape, values = (len(saved), *map(len, axes.values())), solution.evaluate(nodes)[saved]
            for a, name in enumerate(names):
                variables[name] = _describe(("time", *axes), values[:, a].reshape(shape), f"field {name}")
            coordinates |= make_data(axes)
        return check_finite(Record(variables, coordinates))


def _describe(dims: tuple[str, ...], values: Any, long_name: str) -> Datum:
    return Datum(dims, np.asarray(values), {"long_name": long_name, "units": "1"})


class FieldEvolutionCase(FieldCase):
    """One run of the paper's method for several fields or nonlinear fluxes."""

    NAME = "field_evolution"
    PARAMETERS = FIELD_PARAMETERS
    SCALARS = ("rank", "mass_defect")

    @cached_property
    def discretisation(self) -> Discretisation:
        """Settings of the run except the problem."""
        given, dictionary = self.given, declarations.make_dictionary(self.values)
        return Discretisation(
            dictionary=dictionary, seed=given.seed if dictionary.RANDOM else 0, tau=given.tau,
            quadrature=given.quadrature, validation=given.validation, grid=self.observed,
            integrator=declarations.make_integrator(self.values),
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
        flux_system.check_integrator(self.discretisation.integrator)
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

    def solve(self, data: FieldData, share: Share) -> tuple[FieldSolution, dict[str, float]]:
        solution = solve_fields(data, self.discretisation, *self.newton, share)
        rule, defects = solution.system.rule, []
        for space in solution.system.spaces:
            gram = space.basis[0].T @ (rule.weights[:, None] * space.basis[0])
            defects.append(float(np.linalg.norm(gram - np.eye(len(gram)), 2)))
        return solution, {"rank": solution.system.initial.size, "mass_defect": max(defects)}

    def make_reference(self, data: FieldData) -> Reference | None:
        given = self.given
        options = given.reference_points, given.reference_dt
        return references.make_reference(given.reference, data, self.discretisation, *options, solve_fields)


class Evolution(ProblemCase):
    """One run of Evo-GTransNet (Algorithm 1).  Raises ParameterError if its parameters contradict each other."""

    NAME = "evolution"
    FIELDS_CASE = FieldEvolutionCase
    PARAMETERS = declarations.EVOLUTION
    RECORDABLE = (*HISTORIES, "field", *NORMS, STAGE_SECONDS, *certificates.CERTIFICATES)
    DEFAULTS: ClassVar[Values] = {
        "coefficient_rtol": CoefficientReference.rtol, "coefficient_atol": CoefficientReference.atol
    }  # fmt: skip

    @classmethod
    def list_stage_parameters(cls, method: ProblemMethod) -> tuple[str, ...]:
        own = tuple(name for name in method.kind_parameters["dictionary"] if name != "gamma")
        return ("validation", "assessment", "quadrature", "dictionary", *own, "gamma", "candidate", "seed", "tau")

    @classmethod
    def list_scalars(cls, method: ProblemMethod, values: Values) -> tuple[str, ...]:
        known = ["initial_error", "rank", "retained_condition", "raw_resolution", "mass_defect", "quadrature_defect"]
        reference = values.get("reference")
        if _has_final_error(method, reference):
            known.insert(0, "error")
        own_step = reference == references.DIFFERENCES and "reference_dt" not in values
        if own_step or reference in (references.ELEMENTS, references.REFINED):
            known += ["reference_error", "reference_share"]
        known += [name for name in NORMS if name in method.output.record]
        if "coefficient_reference" in values:
            known.append("coefficient_error")
        if "assessment" in values:
            known += ["mass_defect_cross_grid", "stiffness_defect_cross_grid"]
        if method.source.statement is None or getattr(method.source.statement, "potential", None) is not None:
            known += ["energy_drop_percent", "energy_increment"]
        return (*known, *certificates.select_certificates(method.output.record))

    def __init__(self, method: ProblemMethod, values: Values) -> None:
        super().__init__(method, values)
        # create the parts that the run key needs and that can raise ParameterError
        self.dictionary, self.integrator = declarations.make_dictionary(values), declarations.make_integrator(values)
        # if no output uses the times, all such cases share the run with two times
        times = method.output.times if select_arrays(method.output) else 2
        self.grid = make_time_grid(values["final_time"], values["dt"], times)  # type: ignore[arg-type]
        if "coefficient_reference" in values:
            self.discretisation  # noqa: B018

    @cached_property
    def discretisation(self) -> Discretisation:
        """Settings of the case: dictionary, quadrature rules, time grid and integrator."""
        given = self.given
        named = given.coefficient_reference
        settings = {key: getattr(given, f"coefficient_{key}") for key in ("rtol", "atol", "max_step")}
        used = {key: value for key, value in settings.items() if value is not None and named != "eigendecomposition"}
        return Discretisation(
            dictionary=self.dictionary, seed=given.seed if self.dictionary.RANDOM else 0,  # all seeds share a run
            tau=given.tau, quadrature=given.quadrature, validation=given.validation, grid=self.grid,
            integrator=self.integrator, assessment=given.assessment, decomposition=given.decomposition or SVD,
            coefficient_reference=None if named is None else CoefficientReference(named, **used),
        )  # fmt: skip

    @property
    def times_text(self) -> str:
        return _write_saved_times(self.grid) if select_arrays(self.method.output) else "null"

    def list_unused(self) -> tuple[str, ...]:
        reference = self.values.get("reference")
        is_measured = reference not in (None, references.EXACT)
        unused: tuple[str, ...] = () if is_measured else ("reference",)
        if self.values.get("decomposition") == SVD:
            unused += ("decomposition",)
        if reference not in references.BY_POINTS:
            unused += ("reference_points",)
        if not is_measured or reference in self.method.references:
            unused += ("reference_dt",)
        if self.values.get("coefficient_reference") in (None, "eigendecomposition"):
            unused += ("coefficient_rtol", "coefficient_atol", "coefficient_max_step")
        return unused

    @property
    def reference_content(self) -> dict[str, Value]:
        """Parameters that identify the reference, or no parameters for the exact solution."""
        given = self.given
        if given.reference in (None, references.EXACT):
            return {}
        code = self.method.references.get(str(given.reference))
        if code is not None:
            return {"reference": dump_canonical({"code": code.fingerprint})}
        content: dict[str, Value] = {"reference": given.reference}
        if given.reference in references.BY_POINTS and given.reference_points is not None:
            content["reference_points"] = given.reference_points
        return content | ({} if given.reference_dt is None else {"reference_dt": given.reference_dt})

    # The dimension is unknown until a factory makes its problem.  The key then has 0 for the domain, because the key of
    # the problem identifies the domain.
    @property
    def stages(self) -> Mapping[str, Hashable]:
        problem = self.method.hash_problem(self.values)
        reference = hash_text(dump_canonical(self.reference_content))
        if self.given.reference == references.REFINED:  # one reference for all seeds
            reference += repr(replace(self.discretisation, seed=0))
        return list_stage_keys(problem, self.method.source.dimension or 0, self.discretisation, reference)

    def run(self, share: Share) -> Record:
        problem, identity = self.method.share_problem(self.values, share), self.method.hash_problem(self.values)
        reference = self.make_reference(problem)
        if reference is not None:
            reference = references.share_among_workers(reference, identity)
        output, clock = self.method.output, StageClock(share)
        share = clock if STAGE_SECONDS in output.record else share
        _, record = compute_record(problem, self.discretisation, output, share, reference, identity)
        return clock.add_to(check_finite(record)) if share is clock else check_finite(record)

    def make_reference(self, problem: Problem) -> Reference | None:
        """Return the reference for errors, or None for the exact solution."""
        given, run = self.given, self.discretisation
        named = self.method.references.get(str(given.reference), given.reference)
        return references.make_reference(named, problem, run, given.reference_points, given.reference_dt)

    def check(self) -> None:
        run, method = self.discretisation, self.method
        if method.source.statement is not None and method.source.dimension is not None:
            run.dictionary.check_dimension(method.source.statement.domain.feature_dimension)
            declarations.warn_of_reach(run.dictionary, method.source.dimension)
        if not select_arrays(method.output):  # then no time is saved, but the times of the file must still be valid
            TimeGrid.from_step(run.grid.final_time, run.grid.dt, method.output.times)
        elif "error_history" in method.output.record and not _has_final_error(method, self.given.reference):
            raise StudyError(NO_SOLUTION.format("error_history"))
        given = self.given
        # the result of `check_problem` depends on these settings, and not on seeds and widths
        key = hash_text(dump_canonical(
            [
                method.write_problem_text(self.values), run.quadrature, run.validation, run.assessment or 0,
                run.grid.final_time, run.grid.steps, given.time_integrator, run.integrator.values,
                run.dictionary.family, run.dictionary.content().get("centre", ""), self.reference_content,
                given.reference or "", given.coefficient_reference or "",
            ]
        ))  # fmt: skip
        if key not in method.checked:  # many cases share a problem, and its check takes time
            with np.errstate(all="ignore"):
                self.check_problem(method.make_problem(self.values))
            method.checked.add(key)

    def check_problem(self, problem: Problem) -> None:
        """Raise InputError if the data of the problem contradict the parameters or the outputs of the case."""
        run, wanted = self.discretisation, self.method.output.record
        measured = [name for name in ("error_history", *NORMS) if name in wanted]
        if self.make_reference(problem) is None and problem.exact is None and measured:
            raise StudyError(NO_SOLUTION.format(measured[0]))
        check_norms(problem, wanted)
        certificates.check_certificates(wanted, problem, run.grid.final_time)
        unknown = {
            "free_energy_history": "for a problem without potential" if problem.potential is None else "",
            "reference_coefficients": "without coefficient_reference" if run.coefficient_reference is None else "",
        }
        for name, reason in unknown.items():
            if reason and name in wanted:
                raise StudyError(f"`record` must leave out {name} {reason} (output.record)")
        if run.coefficient_reference is not None:
            run.coefficient_reference.check(problem)
        run.integrator.check(problem)
        run.dictionary.check_dimension(problem.domain.feature_dimension)
        # the diffusion of a user's problem can be an object of any type
        with report_user_errors(f"`diffusion` of {self.method.source.name}"):
            nodes = make_quadrature("quadrature", run.quadrature, problem)
            check_diffusion(problem, nodes, run.integrator.times(run.grid))
        make_quadrature("validation", run.validation, problem)
        if run.assessment is not None:
            make_quadrature("assessment", run.assessment, problem)

    # The estimate counts only dense products of one run, because other operations take little time.
    @property
    def work(self) -> float | None:
        problem, run = self.method.find_example(self.values), self.discretisation
        if problem is None:
            return None
        d, widths, N = problem.dimension, run.dictionary.widths, run.dictionary.N
        Q, V = run.quadrature.count(d), run.validation.count(d)
        r = min(N, Q)  # upper bound of the rank (app:scaling)
        features = (2 * sum(map(operator.mul, widths, widths[1:])) + TANH_FLOPS * sum(widths)) * ((1 + d) * Q + V)
        space = 2 * Q * N**2 + SVD_FLOPS * N**3 + 2 * (1 + d) * Q * N * r + d * Q * r**2
        step: float = 2 * r**2  # states of all steps from the eigenbasis of K
        if not problem.diffusion.steady:
            # a Cholesky factorisation for each step
            step = r**3 / 3 + 20 * r**2 + (0 if isinstance(problem.diffusion, Separable) else d * Q * r**2)
        if problem.potential is not None:
            step += (4 * r + TANH_FLOPS) * Q
        return estimate_seconds(float(features + space + step * run.grid.steps + 2 * len(run.grid.observed) * N * V))

    # The largest arrays that exist at one time are Phi with the copies for its SVD, or the retained basis with its
    # gradients and the validation features.
    @property
    def memory(self) -> float:
        run, dimension = self.discretisation, self.method.estimate_dimension(self.values)
        nodes, validation = run.quadrature.count(dimension), run.validation.count(dimension)
        N, widths, observed = run.dictionary.N, run.dictionary.widths, len(run.grid.observed)
        trial = nodes * N * (1 + (dimension if len(widths) > 1 else 1))
        retained = nodes * N * (1 + dimension)
        layers = sum(map(operator.mul, widths, widths[1:])) * (1 + dimension) + 2 * BLOCK_ENTRIES * (1 + dimension)
        assessed = 0 if run.assessment is None else run.assessment.count(dimension) * N * dimension
        checked = validation * (N + observed * 3)
        most = max(trial + 3 * nodes * N, trial + retained, retained + checked + assessed)
        reference = 0.0
        if self.given.reference == references.DIFFERENCES and self.given.reference_points is not None:
            reference = estimate_difference_memory(dimension, self.given.reference_points, observed)
        return float(8.0 * (layers + RESIDENT_SHARE * most)) + reference


def _has_final_error(method: ProblemMethod, reference: Value | None) -> bool:
    """Return True if a run can measure the final error, or if only the user function knows it."""
    return reference not in (None, references.EXACT) or method.source.has_exact is not False


_write_saved_times = lru_cache(maxsize=declarations.MAX_CACHED_TEXTS)(lambda grid: dump_json(grid.saved))  # often equal

"""Common part of the PDE methods: the problem of a study, its parameters, run keys and records, and user solvers."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np

from evogt_study.errors import (
    AccuracyWarning,
    DivergedError,
    InputError,
    ParameterError,
    ProblemError,
    ReturnError,
    StudyError,
)
from evogt_study.formulas import SPACE
from evogt_study.methods.code import Alternatives, MethodSpec, Output, UserCode, read_signature
from evogt_study.methods.function import (
    PROBLEM,
    UserCase,
    UserFunction,
    read_function_parameters,
    to_argument,
    to_record,
)
from evogt_study.methods.protocol import BoundCase, Method
from evogt_study.pde import problems
from evogt_study.pde.baselines.references import BY_POINTS
from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.dictionaries.tanh_dictionaries import choose_radius
from evogt_study.pde.domains import Domain
from evogt_study.pde.galerkin.problem import Problem, check_data
from evogt_study.pde.galerkin.validation import compute_errors
from evogt_study.pde.methods import declarations
from evogt_study.pde.numerics import Array, Quadrature, QuadratureRule, Rule, TimeGrid, TriangleRule
from evogt_study.pde.pipeline import Share
from evogt_study.pde.problems import FormulaProblem
from evogt_study.pde.problems.fields import FieldProblem
from evogt_study.schema.parameters import Parameter, get_defaults, real
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import Value, Values, dump_canonical, dump_json, hash_text, join_json
from evogt_study.schema.variables import Variable

_LETTERS = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi "
    "psi omega"
)
GREEK = dict(zip(_LETTERS.split(), "αβγδεζηθικλμνξοπρστυφχψω", strict=True))
"""Greek letters by their names, for the long names of parameters in a result."""
MAY_BE_NAN = ("initial_error", "error_history", "field")
"""Variables that may be NaN, because an error is relative to zero or a field is outside of its domain."""
MAY_BE_INFINITE = ("error_bound", "error_bound_absolute", "error_indicator", "error_upper", "error_bound_estimated")
"""Variables that may be infinite, because they are upper bounds."""
KEY_ONLY = frozenset({"seed", "tau", "gamma", "delta", "radius", "centre", "coefficient_rtol", "coefficient_atol"})
"""Parameters that enter the run key and not the setup, besides the parameters of integrators."""
_NODE_FLOPS = 200
"""Estimated operations per validation node."""
RULE, _TIMES, _SOLUTION = "validation", "times", "u"
_SOLVER_ARRAYS = ("error_history", "validation_values")
COMPUTED_NAMES = ("error", "initial_error", *_SOLVER_ARRAYS)
"""Names of the variables that the package computes from `u`."""


@dataclass(frozen=True, eq=False)
class ProblemSource:
    """Source of the problems of a study, a formula problem or a user function.

    The function `make` returns the problem for a final time and values of `parameters`.  The `content` identifies the
    source, and messages use its `name`.  `dimension` and `has_exact` are None if only the user function knows them.
    """

    name: str
    parameters: Mapping[str, Parameter]
    content: Any
    make: Callable[..., Any]
    statement: FormulaProblem | FieldProblem | None = None
    dimension: int | None = None
    has_exact: bool | None = None
    field_names: tuple[str, ...] = ()

    @staticmethod
    def from_statement(given: object) -> ProblemSource:
        """Return the source of a formula problem, or of a user function that makes problems."""
        loaded: Any = given.load() if isinstance(given, UserCode) else given
        if isinstance(loaded, (FormulaProblem, FieldProblem)):
            content = loaded.key_content
            if isinstance(given, UserCode) and isinstance(loaded, FieldProblem) and loaded.terms is not None:
                content["code"] = {"code": given.fingerprint}
            parameters = {name: declare_formula_parameter(name) for name in sorted(loaded.parameters)}
            names = loaded.names if isinstance(loaded, FieldProblem) else ()
            known = loaded, loaded.dimension, loaded.has_exact, names
            return ProblemSource(loaded.name or "problem", parameters, content, loaded.until, *known)
        if not isinstance(given, UserCode):
            raise StudyError(f"`problem` must be a formula problem or a function, got {type(given).__name__}")
        name = Path(given.reference).name if ".py:" in given.reference else given.reference
        make = partial(_make_problem, loaded, name, given)
        return ProblemSource(name, read_signature(loaded, name), {"code": given.fingerprint}, make)


def declare_formula_parameter(name: str) -> Parameter:
    """Return the declaration of the parameter `name` of a formula problem."""
    return Parameter(name, "a finite number", real(), GREEK.get(name, name), "parameter of the problem's formulas")


# Catch SystemExit too, so that a factory that calls sys.exit does not end the command.
def _make_problem(
    factory: Callable[..., Any], name: str, code: UserCode, final_time: float | None, /, **values: Any
) -> Problem:
    """Return the problem that a user function makes.  Raises ProblemError for an exception or for invalid data."""
    objects = dict(code.objects)
    try:
        with code.enable_imports():
            problem = factory(**{each: to_argument(value, objects) for each, value in values.items()})
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a factory can raise any exception
        raise ProblemError(f"`{name}` raised {type(error).__name__}: {error}") from error
    if not isinstance(problem, Problem) or problem.dimension not in (1, 2, 3):
        got = type(problem).__name__ if not isinstance(problem, Problem) else f"dimension {problem.dimension!r}"
        raise ProblemError(f"`{name}` must return a Problem of dimension 1, 2 or 3, got {got}")
    with report_user_errors(f"the data of {name}"):
        check_data(problem, final_time)
    return problem


class Usage:
    """Parameters that cases with one dictionary and one integrator use, and the texts of their setups."""

    def __init__(self, method: ProblemMethod, case: ProblemCase, unused: tuple[str, ...]) -> None:
        kinds, formula_names = declarations.list_kinds(method.parameters, case.values), {*method.source.parameters}
        own = {name: parameter for kind in kinds for name, parameter in kind.parameters().items()}
        # the parameters of other dictionaries and integrators, and the unused parameters of the case
        every = {name for names in method.kind_parameters.values() for name in names}
        others = ({*unused} | (every - {*own})) - formula_names
        if any(issubclass(kind, Dictionary) and not kind.RANDOM for kind in kinds):
            others |= {"seed"} - formula_names
        # setups write N1 = 240 as hidden = [240]
        written = {name: "hidden" if name == "N1" and name not in formula_names else name for name in case.values}
        used = sorted({*case.values} - others, key=written.__getitem__)
        fixed = {"method": dump_json(case.NAME), "version": str(case.VERSION), "problem": method.content_text}
        self.key_only = tuple(name for name in used if name in method.key_only_parameters)
        self.defaults: Values = {**get_defaults(own), **method.defaults}
        self._opening = f'{{"fixed":{join_json({**fixed, **method.output.texts})}'
        self._codes = {name: dump_canonical({"code": code.fingerprint}) for name, code in method.references.items()}
        # for each parameter of the setup the text around its value, and the text of its default value
        self._parts: dict[str, tuple[str, str, str | None]] = {}
        for name in (name for name in used if name not in method.key_only_parameters):
            ends = ("", "") if written[name] == name else ("[", "]")
            default = dump_json(self.defaults[name]) if name in self.defaults else None
            self._parts[name] = f"{dump_json(written[name])}:{ends[0]}", ends[1], default

    def write_setup(self, values: Values, times: str) -> str:
        """Return the setup of a case with its saved `times` as JSON.  The setup omits default values."""
        entries = []
        for name, (start, end, default) in self._parts.items():
            value = values[name]
            text = _write_rule(value) if isinstance(value, (QuadratureRule, TriangleRule)) else dump_json(value)
            if name == "reference":
                text = self._codes.get(str(value), text)
            if text != default:
                entries.append(start + text + end)
        return f'{self._opening},"times":{times},"values":{{{",".join(entries)}}}}}'


_write_rule = lru_cache(maxsize=declarations.MAX_CACHED_TEXTS)(dump_canonical)  # neighbouring cases share their rules


@dataclass(frozen=True, eq=False)
class ProblemMethod(Method):
    """Method of this package for the problem and the outputs of a study.  `kind` is the class of its cases."""

    variables: ClassVar[Mapping[str, Variable]] = declarations.VARIABLES
    keywords: ClassVar[tuple[str, ...]] = ("random features", "parabolic partial differential equations")

    source: ProblemSource
    output: Output
    parameters: Mapping[str, Parameter]
    kind: Any = field(default=None, kw_only=True)
    references: Mapping[str, UserCode] = field(default_factory=dict, kw_only=True)
    """User functions that are references for errors, by their names in the study."""
    kind_parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict, kw_only=True)
    """Names of the parameters of all dictionaries and integrators, under "dictionary" and "time_integrator"."""
    examples: dict[str, Problem | None] = field(default_factory=dict, repr=False, kw_only=True)
    usages: dict[object, Usage] = field(default_factory=dict, repr=False, kw_only=True)
    checked: set[str] = field(default_factory=set, repr=False, kw_only=True)

    @classmethod
    def declare(
        cls, spec: MethodSpec, parameters: Mapping[str, Parameter], recordable: tuple[str, ...], kind: Any = None,
        **more: Any,
    ) -> Self:  # fmt: skip
        """Return the method for `spec` with its `parameters`, the parameters of the problem, and cases of `kind`.

        `more` are further arguments of the constructor.  Raises StudyError if the problem or an output does not exist.
        """
        if spec.problem is None or isinstance(spec.problem, Alternatives):
            known = f"one of {', '.join(problems.BUILT_IN)}, file.py:factory or a [problem] table"
            raise StudyError(f"the method {spec.method} needs a `problem`. Use {known}")
        source, output = ProblemSource.from_statement(spec.problem), spec.output or Output()
        if source.field_names and not getattr(kind, "SOLVES_FIELDS", False):
            raise StudyError(f"the method {spec.method} needs a problem with one field and linear fluxes")
        unknown = [name for name in output.record if name not in recordable]
        if unknown:
            raise StudyError(f"`record` must contain only {', '.join(recordable)}, got {unknown[0]!r} (output.record)")
        kind_parameters = {
            name: tuple(declarations.add_kinds({name: parameter}, spec.kinds))[1:]
            for name, parameter in parameters.items()
            if parameter.kinds is not None
        }
        parameters = declarations.add_kinds(parameters, spec.kinds)
        own = {name: parameter for name, parameter in source.parameters.items() if name not in parameters}
        if shared_names := {*source.field_names} & {*parameters, *own}:
            raise StudyError(f"a field must have another name than a parameter, got {min(shared_names)!r}")
        if source.dimension is not None and "radius" in parameters:  # the default depends on the dimension
            radius = choose_radius(source.dimension + getattr(kind, "DIRECTIONS_OF_TIME", 0))
            parameters["radius"] = replace(parameters["radius"], default=radius)
        return cls(
            source, output, {**parameters, **own}, kind=kind, kind_parameters=kind_parameters,
            references={code.reference: code for code in spec.references}, **more,
        )  # fmt: skip

    def bind(self, values: Values) -> Any:
        return self.kind(self, values)

    def list_required_parameters(self, values: Values) -> tuple[str, ...]:
        needed = [kind.list_required_parameters(values) for kind in declarations.list_kinds(self.parameters, values)]
        if self.kind is not None and values.get("reference") in BY_POINTS and "reference_points" in self.parameters:
            needed.append(("reference_points",))
        return (*super().list_required_parameters(values), *(name for names in needed for name in names))

    @cached_property
    def stage_parameters(self) -> Any:  # type: ignore[override]
        return self.kind.list_stage_parameters(self)

    def list_scalar_variables(self, values: Values) -> Any:
        return None if self.kind is None else self.kind.list_scalars(self, values)

    @cached_property
    def key_only_parameters(self) -> frozenset[str]:  # type: ignore[override]
        known = self.source.parameters
        key_only = KEY_ONLY.union(self.kind_parameters.get("time_integrator", ()))
        if "seed" in known:  # each seed gives a problem to check
            key_only -= {"seed"}
        return frozenset(name for name, each in self.parameters.items() if name in key_only or each is known.get(name))

    @cached_property
    def defaults(self) -> Mapping[str, Value]:
        """Default values of all parameters of the method."""
        return {**get_defaults(self.parameters), **getattr(self.kind, "DEFAULTS", {})}

    def write_problem_text(self, values: Values) -> str:
        """Return canonical JSON that identifies the problem of a case."""
        texts = {name: dump_json(value) for name, value in self.select_problem_values(values).items()}
        return join_json({"content": self.content_text, "values": join_json(texts)})

    def hash_problem(self, values: Values) -> str:
        """Return the hash of the text that identifies the problem of a case."""
        return hash_text(self.write_problem_text(values))

    @cached_property
    def content_text(self) -> str:
        """Canonical JSON of the formulas of the problem, or of the fingerprint of the user function."""
        return dump_canonical(self.source.content)

    def select_problem_values(self, values: Values) -> dict[str, Value]:
        """Return the values of the parameters of the problem."""
        return {name: values[name] for name in self.source.parameters if name in values}

    def make_problem(self, values: Values) -> Problem:
        """Return the problem of one case.  Raises ProblemError or ParameterError if its data cannot be used."""
        given = self.select_problem_values(values)
        for name, value in given.items():
            # a formula uses a parameter of the method, which can have values that are not numbers
            declared = self.parameters[name] is not self.source.parameters[name]
            if declared and (isinstance(value, bool) or not isinstance(value, (int, float))):
                raise ParameterError(name, "a number, because a formula uses it", value)
        stated = values.get("final_time")
        problem: Problem = self.source.make(stated if isinstance(stated, float) else None, **given)
        return problem

    def find_example(self, values: Values) -> Problem | None:
        """Return an example of the problem for estimates, or None if the user function raises an error."""
        key = self.write_problem_text(values) if self.source.statement is None else ""
        if key not in self.examples:
            try:
                with warnings.catch_warnings(action="ignore", category=AccuracyWarning):
                    self.examples[key] = self.make_problem(values)
            except InputError:
                self.examples[key] = None
        return self.examples[key]

    def estimate_dimension(self, values: Values) -> int:
        """Return the dimension d for estimates, or 2 if d is unknown."""
        if self.source.dimension is not None:
            return self.source.dimension
        problem = self.find_example(values)
        return 2 if problem is None else problem.dimension

    def share_problem(self, values: Values, share: Share) -> Problem:
        """Return the problem of a case.  The cases of a batch share the object."""
        # the check of the study gives the warnings
        with warnings.catch_warnings(action="ignore", category=AccuracyWarning):
            return share("problem", self.hash_problem(values), lambda: self.make_problem(values))


class ProblemCase(BoundCase):
    """Case of a `ProblemMethod`, given by the values of its parameters."""

    NAME: ClassVar[str]
    VERSION: ClassVar[int] = 1
    """Version of the method.  It increases if equal parameters give other results, or if a default changes."""
    PARAMETERS: ClassVar[Mapping[str, Parameter]]
    RECORDABLE: ClassVar[tuple[str, ...]]
    SCALARS: ClassVar[tuple[str, ...]]
    DIRECTIONS_OF_TIME: ClassVar[int] = 0
    """Number of directions of the features besides the directions of space."""
    FIELDS_CASE: ClassVar[Any] = None
    """Class of the cases with several fields or nonlinear fluxes, or None if the method does not solve them."""
    SOLVES_FIELDS: ClassVar[bool] = False
    """True if the method solves only problems with several fields or nonlinear fluxes."""
    DEFAULTS: ClassVar[Values] = {}
    """Defaults of parameters without a declared default.  They do not enter the run key."""

    def __init__(self, method: Any, values: Values) -> None:
        self.method, self.values = method, values

    @classmethod
    def of(cls, spec: MethodSpec) -> Method:
        """Return the method with cases of this class.  Raises StudyError if the problem or an output does not exist."""
        problem = spec.problem.load() if isinstance(spec.problem, UserCode) else spec.problem
        kind = cls.FIELDS_CASE if cls.FIELDS_CASE is not None and isinstance(problem, FieldProblem) else cls
        return ProblemMethod.declare(spec, kind.PARAMETERS, kind.RECORDABLE, kind)

    @classmethod
    def list_scalars(cls, method: ProblemMethod, values: Values) -> tuple[str, ...]:
        """Return the names of the scalars in a record."""
        return (*(() if method.source.has_exact is False else ("error",)), *cls.SCALARS)

    @classmethod
    def list_stage_parameters(cls, method: ProblemMethod) -> tuple[str, ...]:
        """Return the names of the parameters that determine the stages, in the order in which batches group cases."""
        own = {*cls.PARAMETERS}.union(*method.kind_parameters.values())
        return (*method.source.parameters, *(name for name in method.parameters if name in own))

    @cached_property
    def given(self) -> Any:
        """Values of the `PARAMETERS` as attributes.  A parameter without a value has its default."""
        given = {name: self.values.get(name, parameter.default) for name, parameter in self.PARAMETERS.items()}
        return SimpleNamespace(**given)

    @property
    def observed(self) -> Any:
        """Time grid of the case.  Raises ParameterError if the step or the saved times are invalid."""
        return make_time_grid(self.given.final_time, self.given.dt, self.method.output.times)

    def check(self) -> None:
        problem: Any = self.method.make_problem(self.values)
        len(self.observed.saved_times)  # raises ParameterError for invalid times
        make_quadrature("validation", self.given.validation, problem)
        with np.errstate(all="ignore"):
            self.check_problem(problem)

    def check_problem(self, problem: Any) -> None:
        """Raise InputError if the method cannot solve the problem or cannot record an output."""

    def list_unused(self) -> tuple[str, ...]:
        """Return the names of the parameters that the case does not use."""
        return ()

    @cached_property
    def usage(self) -> Usage:
        """Parameters that this case uses, which other cases share."""
        unused, known = self.list_unused(), self.method.usages
        key = self.values.get("dictionary"), self.values.get("time_integrator"), *unused, *self.values
        if key not in known:
            known[key] = Usage(self.method, self, unused)
        usage: Usage = known[key]
        return usage

    @property
    def key_only_values(self) -> Values:
        return {name: self.values[name] for name in self.usage.key_only}

    @property
    def defaults(self) -> Values:
        return self.usage.defaults

    @property
    def times_text(self) -> str:
        """Canonical JSON of the saved times, or null if no output uses the times."""
        return dump_canonical(self.observed.saved_times.tolist()) if self.method.output.record else "null"

    @property
    def setup(self) -> str:
        return self.usage.write_setup(self.values, self.times_text)


make_time_grid = lru_cache(maxsize=declarations.MAX_CACHED_TEXTS)(
    TimeGrid.from_step
)  # neighbouring cases share the grid


# The times of finished cases correct all estimates.
def estimate_seconds(flops: float) -> float:
    """Estimate the seconds of a run with 3e10 operations per second, on a core of 2024, plus a millisecond."""
    return 1e-3 + flops / 3e10


# NaN and infinity show that a run diverged.  In a run with status ok, they would make every mean useless.
def check_finite(record: Record) -> Record:
    """Return the record unchanged.  Raises DivergedError if a value that must be finite is not finite."""
    for name, datum in record.variables.items():
        values = np.asarray(datum.values)
        bad = ~np.isfinite(values)
        if name in MAY_BE_NAN:
            bad &= np.isinf(values)
        elif name in MAY_BE_INFINITE:
            bad &= values != np.inf
        if name != "exact_field" and bad.any():
            worst = values[bad].flat[0]
            raise DivergedError(f"`{name}` is {float(worst)}" + (" in places" if datum.dims else ""))
    return record


# The user sees any error of a user function as one line instead of a traceback.
@contextmanager
def report_user_errors(named: str) -> Iterator[None]:
    """Turn any exception of user functions in a `with` block, except InputError, into a ProblemError."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise ProblemError(f"cannot evaluate {named} at nodes and times: {cause}") from error


def make_quadrature(name: str, rule: Rule, problem: Problem) -> Quadrature:
    """Return the nodes and weights of the rule in parameter `name`.  Raises ParameterError for too many nodes."""
    try:
        return problem.domain.quadrature(rule)
    except ParameterError as error:
        raise ParameterError(name, error.wanted, error.got) from None


def make_data(values: Mapping[str, Any]) -> dict[str, Datum]:
    """Return data with their declared dimensions for a record, without values that are None."""
    known = {name: np.asarray(value) for name, value in values.items() if value is not None}
    return {name: Datum(declarations.VARIABLES[name].dims, value) for name, value in known.items()}


def measure_energies(energies: Array) -> dict[str, float]:
    """Return the decrease of the energy in percent and the largest increment of the energy in one step."""
    scalars = {"energy_increment": float(np.diff(energies).max())}
    if energies[0] == 0.0:  # the percentage is undefined
        return scalars
    return {"energy_drop_percent": float(100.0 * (energies[0] - energies[-1]) / energies[0]), **scalars}


def measure_errors(
    problem: Problem, rule: Quadrature, values: Array, times: Array, wanted: Collection[str],
    saved: list[int] | slice = slice(None),
) -> tuple[dict[str, Datum], dict[str, Datum]]:  # fmt: skip
    """Return the errors of values at the nodes (S, Q), the `wanted` arrays, and their coordinates except the times."""
    measured, is_wanted = dict[str, Any](), "validation_values" in wanted
    if problem.exact is not None:
        errors = compute_errors(values, problem.exact(rule.nodes, times), rule.weights)
        measured = {"error": errors[-1], "error_history": errors[saved] if "error_history" in wanted else None}
    variables = make_data({**measured, "validation_values": values[-1] if is_wanted else None})
    return variables, make_data({"weight": rule.weights if is_wanted else None})


def make_uniform_grid(domain: Domain, points: int) -> tuple[Array, dict[str, Array]]:
    """Return the nodes (P, d) of a uniform grid with the boundary, and the coordinates along each axis by name."""
    axes = dict(zip(SPACE, domain.axes(points), strict=False))
    return np.stack([each.ravel() for each in np.meshgrid(*axes.values(), indexing="ij")], axis=1), axes


# Evaluate once at all nodes, because the features cost most of the time and do not depend on time.
def sample_fields(
    evaluate: Callable[[Array], Array], problem: Problem, grid: Any, wanted: Collection[str], points: int
) -> tuple[dict[str, Datum], dict[str, Datum]]:
    """Return the numerical and the exact solution on a uniform grid, if `wanted`, and the coordinates of all arrays.

    The function `evaluate` maps nodes (P, d) to values at the observed times (S, P).  The fields are NaN outside of the
    domain, so a NaN of the numerical solution becomes infinity.
    """
    times, data = grid.saved_times, dict[str, Datum]()
    if "field" not in wanted:
        return data, make_data({"time": times if wanted else None})
    nodes, axes = make_uniform_grid(problem.domain, points)
    inside, shape = problem.domain.contains(nodes), (len(times), *map(len, axes.values()))
    values = evaluate(nodes[inside])[grid.saved_positions]
    sampled = {"field": np.where(np.isnan(values), np.inf, values)}
    if problem.exact is not None:
        sampled["exact_field"] = problem.exact(nodes[inside], times)
    for name, each in sampled.items():
        whole = np.full((len(times), len(nodes)), np.nan)
        whole[:, inside] = each
        data[name] = Datum(("time", *axes), whole.reshape(shape))
    return data, make_data({"time": times, **axes})


# Cases of baselines share only the problem, because the matrices depend on all of their parameters.
class BaselineCase(ProblemCase):
    """Case of a baseline method, with the common checks, estimates and measurements."""

    def check_problem(self, problem: Problem) -> None:
        record = self.method.output.record
        needed = {"error_history": (problem.exact, "`exact`"), "free_energy_history": (problem.potential, "potential")}
        for name, (given, term) in needed.items():
            if given is None and name in record:
                raise ProblemError(f"`record` must leave out {name} for a problem without {term}")

    @property
    def stages(self) -> Mapping[str, Hashable]:
        return {"problem": self.method.hash_problem(self.values)}

    @property
    def work(self) -> float | None:
        problem = self.method.find_example(self.values)
        if problem is None:
            return None
        flops = self.estimate_flops(problem) + _NODE_FLOPS * self.given.validation.count(problem.dimension)
        return estimate_seconds(flops)

    @abstractmethod
    def estimate_flops(self, problem: Problem) -> float:
        """Estimate the number of floating-point operations of a run."""

    def run(self, share: Share) -> Record:
        return check_finite(self.solve(self.method.share_problem(self.values, share)))

    @abstractmethod
    def solve(self, problem: Problem) -> Record:
        """Solve the problem and return the record of the run."""

    # Evaluate once at the validation nodes, for all times and all measurements.
    def measure(self, problem: Problem, evaluate: Callable[[Array], Array], more: Mapping[str, Any]) -> Record:
        """Return the record with the outputs of a solution and with `more` variables, except None.

        The function `evaluate` maps nodes (P, d) to values of the solution at the observed times (S, P).
        """
        grid, wanted = self.observed, self.method.output.record
        rule, saved = problem.domain.quadrature(self.given.validation), grid.saved_positions
        values = evaluate(rule.nodes)
        initial = compute_errors(values[:1], problem.initial(rule.nodes)[None, :], rule.weights)
        variables, coordinates = measure_errors(problem, rule, values, grid.observed_times, wanted, saved)
        fields, axes = sample_fields(evaluate, problem, grid, wanted, self.method.output.grid)
        variables |= make_data({"initial_error": initial[0]}) | fields
        return Record(variables | make_data(more), coordinates | axes)


@dataclass(frozen=True, eq=False)
class UserSolver(UserFunction, ProblemMethod):
    """Method that calls a user function with the problem, and measures the error of the returned solution.

    The function may have the arguments `validation`, the nodes (Q, d) and weights (Q,) of the validation rule, and
    `times`, the saved times (S,).  It returns `u` at the nodes, at the final time (Q,) or at all saved times (S, Q).
    """

    variables: ClassVar[Mapping[str, Variable]] = {}  # the returned values have their own attributes
    keywords: ClassVar[tuple[str, ...]] = ()

    own: tuple[str, ...]

    @staticmethod
    def of(spec: MethodSpec) -> UserSolver:
        """Return the method for a study.  Raises StudyError if the problem or an output does not exist."""
        if not isinstance(spec.method, UserCode) or spec.problem is None:
            name = spec.method.reference if isinstance(spec.method, UserCode) else spec.method
            raise StudyError(f"the method {name} has an argument `problem`. State a `problem` in the study")
        function = spec.method.load()
        own = {
            name: each
            for name, each in read_function_parameters(function, spec.method.reference).items()
            if name not in (PROBLEM, RULE, _TIMES)  # the package supplies these arguments
        }
        shared = declarations.declare_parameters(RULE, "final_time")
        return UserSolver.declare(
            spec, own | shared, _SOLVER_ARRAYS, code=spec.method, function=function, own=tuple(own), common=spec.common
        )

    def bind(self, values: Values) -> UserSolverCase:
        return UserSolverCase(self, values)

    @property
    def stage_parameters(self) -> tuple[str, ...]:  # type: ignore[override]  # cases share only the problem
        return (*self.source.parameters, *(name for name in self.own if name not in self.source.parameters))

    @cached_property
    def setup(self) -> str:
        """Common part of the setups of all cases, with the code, the problem and the output."""
        fixed = {"problem": self.content_text, "times": dump_canonical(self.output.times), **self.output.texts}
        common = {name: dump_canonical(value) for name, value in self.describe_streams().items()}
        return join_json({"code": dump_canonical({"code": self.code.fingerprint}), **fixed, **common})


class UserSolverCase(UserCase):
    """Case of a `UserSolver`, which is one call of the function."""

    @property
    def stages(self) -> Mapping[str, Hashable]:
        return {PROBLEM: self.method.hash_problem(self.values)}

    @cached_property
    def times(self) -> Array:
        """Saved times of the case, either evenly spaced from 0 to T or listed in the study."""
        given, final = self.method.output.times, float(self.values["final_time"])  # type: ignore[arg-type]  # a number
        # any times are valid, because the user function does not use the time grid of the package
        return np.linspace(0.0, final, given) if isinstance(given, int) else np.array(given)

    def check(self) -> None:
        super().check()
        make_quadrature(RULE, self.values[RULE], self.method.make_problem(self.values))  # type: ignore[arg-type]  # a rule

    def run(self, share: Share) -> Record:
        method, problem = self.method, self.method.share_problem(self.values, share)
        rule = make_quadrature(RULE, self.values[RULE], problem)  # type: ignore[arg-type]  # a rule
        made = {PROBLEM: problem, RULE: rule, _TIMES: self.times}
        values = {name: self.values[name] for name in method.own if name in self.values}
        supplied = {name: each for name, each in made.items() if name in method.names}
        returned = self.call(values, {PROBLEM: method.content_text}, supplied)
        record = to_record({_SOLUTION: returned} if isinstance(returned, np.ndarray) else returned)
        variables = {**record.variables}
        solution = variables.pop(_SOLUTION, None)
        if solution is None:
            return self.check_record(record)
        u, wanted = np.asarray(solution.values, dtype=float), method.output.record
        if computed_names := [name for name in COMPUTED_NAMES if name in record.variables]:
            name = computed_names[0]
            raise ReturnError(f"the method returned `{name}`, which the package computes from `u`. Leave out `{name}`")
        shapes = ((len(rule.weights),), (len(self.times), len(rule.weights)))
        if u.shape not in shapes:
            known = f"Return the values at the nodes, of shape {shapes[0]} or {shapes[1]}"
            raise ReturnError(f"the method returned `u` of shape {u.shape}. {known}")
        at_nodes, times = (u[None, :], self.times[-1:]) if u.ndim == 1 else (u, self.times)
        arrays = wanted if u.ndim == 2 else tuple(name for name in wanted if name != "error_history")
        errors, coordinates = measure_errors(problem, rule, at_nodes, times, arrays)
        if "error_history" in errors:
            coordinates["time"] = Datum(("time",), times)
        variables, coordinates = variables | errors, {**record.coordinates, **coordinates}
        return self.check_record(replace(record, variables=variables, coordinates=coordinates))

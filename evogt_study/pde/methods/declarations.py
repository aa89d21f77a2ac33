"""Variables that the PDE methods record, and parameters of `evolution`, of dictionaries and of integrators.

The `comment` of a variable names the paper's equation or table.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from evogt_study.errors import AccuracyWarning, ParameterError, StudyError, warn
from evogt_study.pde.baselines.references import NAMES as REFERENCES
from evogt_study.pde.baselines.references import StoredSolution, find_reference_solution
from evogt_study.pde.dictionaries import FAMILIES, Dictionary
from evogt_study.pde.galerkin.system import DECOMPOSITIONS
from evogt_study.pde.galerkin.validation import COEFFICIENT_REFERENCES
from evogt_study.pde.integrators import INTEGRATORS, Integrator
from evogt_study.pde.numerics import MAX_GAUSS_POINTS, RULES, TRIANGLES, QuadratureRule, TriangleRule
from evogt_study.registry import Registry
from evogt_study.schema.parameters import Parameter, Parametrised, choice, integer, real, registry_key
from evogt_study.schema.values import Value, Values
from evogt_study.schema.variables import GEOMETRIC_MEAN, Variable

MAX_CACHED_TEXTS = 1024
"""Largest number of texts, dictionaries or time grids in a cache, which halves the time to make the run keys."""
MOST_QUADRATURE_DEFECT = 0.5
"""Largest quadrature defect without an accuracy warning.

The largest defect of the paper is 0.317, for 80 points in studies/paper/quadrature.toml.  The error is then up to 5
times the error with 120 points.  In 3-D, gaussian_rf with 320 features (gamma = 2.5) and 14 points per direction has
the defect 0.55.  The error is then 39 times the error with 20 points."""

_RECORDED = (
    Variable("error", "final relative L2 error on the validation rule",
             "e_rel(T), eq:validation_error; NaN unless status is ok", label="relative $L^2$ error", better="lower"),
    Variable("error_h1", "final relative error in the H1 seminorm on the validation rule",
             "|| grad (u_N - u) ||_w / || grad u ||_w at T", label="relative $H^1$ error", better="lower"),
    Variable("error_max", "final relative error in the maximum over the validation nodes",
             "max_q |u_N - u| / max_q |u| at T", label=r"relative $L^\infty$ error", better="lower"),
    Variable("error_absolute", "final absolute L2 error on the validation rule", "|| u_N - u ||_w at T",
             label="absolute $L^2$ error", better="lower"),
    Variable("error_max_over_time", "largest relative L2 error at the saved times, 0 and T",
             "eq:validation_error, its maximum over time", label="largest $L^2$ error over time", better="lower"),
    Variable("reference_error", "relative L2 difference of the reference from its own coarser version at T",
             "coarser: elements of twice the size, or for refined two thirds of the features and half of the steps",
             label="$L^2$ error of the reference"),
    Variable("reference_share", "reference_error over error",
             "above 0.1 the error of the reference is a large part of the error", limit=0.1,
             warning="`reference_error` is a large part of `error`. Increase `reference_points`, or change `reference`",
             label="share of the reference"),
    Variable("initial_error", "relative L2 error of the projected initial value on the validation rule",
             "eq:validation_error at t = 0; NaN if the initial value is zero", label="initial $L^2$ error"),
    Variable("rank", "retained rank r", "number of sigma_i > sqrt(tau) sigma_1, app:threshold", label="rank $r$"),
    Variable("retained_condition", "retained condition kappa_ret = lambda_1 / lambda_min,kept",
             "at most 1 / tau, tab:diagnostics", label=r"$\kappa_{ret}$"),
    Variable("raw_resolution", "sigma_min(M_q) / sigma_max(M_q) of the raw quadrature mass matrix",
             "unresolved in double precision at or below 2.22e-16, tab:diagnostics",
             label=r"$\sigma_{min} / \sigma_{max}$ of $M_q$"),
    Variable("mass_defect", "identity-mass defect epsilon_M in the spectral norm",
             "|| Phi~^T W_q Phi~ - I_r ||_2, app:threshold, which is rounding", label=r"mass defect $\epsilon_M$"),
    Variable("quadrature_defect", "identity-mass defect on a second rule, in the spectral norm",
             "|| Phi~_b^T W_b Phi~_b - I_r ||_2, b: Gauss-Legendre, one point per direction more than the assembly "
             f"rule; above {MOST_QUADRATURE_DEFECT} that rule is too coarse", limit=MOST_QUADRATURE_DEFECT,
             warning="the assembly rule is too coarse for the features. Use a finer `quadrature`",
             label="mass defect, second rule"),
    Variable("domain_reach", "distance of the domain's farthest corner from the centre, over the radius",
             "max_x |x - x_c| / R; recorded if the ball of transnet or gtransnet does not hold the domain", limit=1.0,
             warning="the ball of `radius` about `centre` does not hold the domain. Use a larger `radius`",
             label="reach of the domain"),
    Variable("mass_defect_cross_grid", "identity-mass defect on the assessment rule, in the spectral norm",
             "epsilon_M^cg, app:cross_grid", label=r"$\epsilon_M^{cg}$"),
    Variable("stiffness_defect_cross_grid", "relative difference of the stiffness on the assessment rule",
             "epsilon_K^cg, app:cross_grid; spectral norms, the largest at 0, T/4, T/2, 3T/4, T",
             label=r"$\epsilon_K^{cg}$"),
    Variable("coefficient_error", "relative Euclidean error of the final coefficients",
             "against coefficient_reference, tab:temporal_convergence", label=r"relative error of $\alpha$"),
    Variable("energy_drop_percent", "fall of the energy E_q over the run, in percent of its initial value",
             "tab:allen_cahn", units="percent", label="fall of $E_q$"),
    Variable("energy_increment", "largest change of the energy E_q in one step, max_n (E_q^{n+1} - E_q^n)",
             "negative if the energy falls in every step, tab:allen_cahn", label="largest step of $E_q$"),
    Variable("error_bound", "bound of the error in the energy norm, relative to the final L2 norm of the solution",
             "from the residual, without the exact solution: docs/guarantees.md; parts: error_bound_initial, "
             "error_bound_residual, error_bound_estimated", label="bound of the error"),
    Variable("error_bound_absolute", "bound of the error in the energy norm", "not divided by a norm"),
    Variable("error_bound_initial", "part of error_bound: initial error", "|| e(0) || over the final norm"),
    Variable("error_bound_residual", "part of error_bound: dual norm of the residual over time",
             "(int_0^T || R ||_{-1,a}^2 dt)^{1/2} over the final norm"),
    Variable("error_bound_estimated", "part of error_bound that is not bounded but estimated, and added",
             "rule in time and modes that the grid does not resolve, in the same norm"),
    Variable("error_indicator", "formula of error_bound for a nonlinear problem, for which it is no bound",
             "from the residual, without the exact solution: docs/guarantees.md", label="indicator of the error"),
    Variable("error_estimate", "estimate of the final relative L2 error without the exact solution",
             "by elliptic reconstruction and the error of the time steps: docs/guarantees.md",
             label="estimated $L^2$ error"),
    Variable("error_lower", "certified lower bound of the final relative L2 error",
             "(|| u_ref - u_N || - delta) / (|| u_ref || + delta): docs/guarantees.md",
             label="lower bound of the $L^2$ error"),
    Variable("error_upper", "certified upper bound of the final relative L2 error",
             "(|| u_ref - u_N || + delta) / (|| u_ref || - delta): docs/guarantees.md",
             label="upper bound of the $L^2$ error"),
    Variable("error_full_space", "best approximation of the final solution in all features, relative L2 error",
             "|| u - v_N || / || u ||, first term of eq:error_split_retained", label="$L^2$ error, all features"),
    Variable("error_retained", "projection of the final solution on the retained space, relative L2 error",
             "|| u - P_{r,q} u || / || u ||, first two terms of eq:error_split_retained",
             label="$L^2$ error, retained space"),
    Variable("error_evolution", "part of the final error due to Galerkin evolution and quadrature",
             "|| P_{r,q} u - u_{N,r} || / || u ||, third term of eq:error_split_retained",
             label="$L^2$ error of evolution"),
    Variable("error_time", "part of the final error due to the time step",
             "|| u_{N,r} - u_{N,r}^n || / || u ||, fourth term of eq:error_split_retained",
             label="$L^2$ error of time steps"),
    Variable("coercivity", "discrete coercivity constant c_A",
             "least A_q(t; z, z) / || z ||_{1,q}^2 at 0, T/4, T/2, 3T/4, T, eq:discrete_coercivity",
             label="coercivity $c_A$"),
    Variable("mass_constant", "constant c_{0,q} of the quadrature mass", "eq:mass_lower_bound, on a finer rule",
             label="$c_{0,q}$"),
    Variable("quadrature_residual", "accumulated residual of the assembly rule, eta_q",
             "eq:quadrature_residual, of the spectral reference", label=r"$\eta_q$"),
    Variable("midpoint_constant", "constant Theta_IM of the implicit midpoint rule",
             "eq:im_residual_explicit, by a spline through the states", label=r"$\Theta_{IM}$"),
    Variable("diffusion_min", "constant a_0, the least diffusion", "at the assembly nodes at 0, T/4, T/2, 3T/4, T",
             label="$a_0$"),
    Variable("diffusion_max", "constant a_1, the largest diffusion", "at the assembly nodes at 0, T/4, T/2, 3T/4, T",
             label="$a_1$"),
    Variable("semidiscrete_constant", "constant C_sd of the semidiscrete estimate",
             "lem:semidiscrete_error, from c_A, c_{0,q}, a_1 and T", label="$C_{sd}$"),
    Variable("offline_seconds", "CPU seconds of the space and its matrices", "without stages that a cache had",
             units="s", label="offline CPU seconds"),
    Variable("online_seconds", "CPU seconds of the time steps", "alg:evo_gtransnet_im, the loop", units="s",
             label="online CPU seconds"),
    Variable("stage_seconds", "CPU seconds of each stage, without the stages inside it", "0 for a stage from a cache",
             ("stage",), units="s", label="CPU seconds"),
    Variable("degrees_of_freedom", "number of unknowns that are advanced in time",
             "interior vertices of p1_fem, tab:p1_fem; interior points of finite_difference", label="unknowns"),
    Variable("scaled_condition", "condition number of the column-scaled augmented matrix [A; sqrt(rho) I]",
             "largest over smallest singular value, tab:global_diagnostic", label="condition number"),
    Variable("error_history", "relative L2 error on the validation rule at the saved times",
             "eq:validation_error at each time", ("time",), label="relative $L^2$ error", better="lower"),
    Variable("energy_history", "quadrature diffusion energy at the saved times",
             "sum_q w_q a |grad u_N|^2; without a lifting alpha^T K(t) alpha, eq:quadrature_diffusion_energy",
             ("time",), label="diffusion energy"),
    Variable("norm_history", "quadrature L2 norm of the solution at the saved times",
             "||u_N(t)||_q; without a lifting ||alpha(t)||_2, prop:mass", ("time",), label="$||u_N(t)||_q$"),
    Variable("free_energy_history", "energy E_q(u) of the gradient flow at the saved times",
             "sum_q w_q [a |grad u|^2 / 2 + F(u)], after eq:ac_g_quad", ("time",), label="$E_q(u)$"),
    Variable("coefficients", "retained coefficients alpha at the saved times",
             "eq:retained_ansatz; NaN beyond the case's rank", ("time", "mode")),
    Variable("feature_coefficients", "coefficients of the features at the saved times",
             "T_r alpha: u_N = u_b + D psi . T_r alpha", ("time", "feature")),
    Variable("reference_coefficients", "coefficients of the reference at final time",
             "alpha_ref(T) of coefficient_reference; NaN beyond the case's rank", ("mode",)),
    Variable("singular_values", "singular values sigma_i of the weighted trial matrix, all N of them",
             "B = W_q^{1/2} Phi, eq:SVD; the retained ones are above sqrt(tau) sigma_1", ("feature",)),
    Variable("field", "numerical solution on a uniform grid at the saved times",
             "u_N, for the method evolution eq:retained_ansatz, with the lifting if there is one",
             ("time", "x", "y", "z")),
    Variable("validation_values", "final values of the numerical solution at the validation nodes",
             "in C order of the tensor-product rule", ("node",)),
    Variable("exact_field", "exact solution on the same grid", "the problem's `exact`", ("time", "x", "y", "z")),
)  # fmt: skip
AXES = (
    # no attribute `axis`: to CF its T is a calendar's time, and its X and Y are horizontal coordinates on the earth
    Variable("time", "time t", "dimensionless, from 0 to final_time", ("time",), content="", label="time $t$"),
    Variable("mode", "index of the retained direction", "from 0, nonincreasing sigma_i", ("mode",), content=""),
    Variable("feature", "index i of the singular value", "from 0, nonincreasing sigma_i", ("feature",), content=""),
    Variable("stage", "stage of a run", "in the order of the method", ("stage",), content=""),
    Variable("node", "index of the validation node", "from 0, in C order of the tensor-product rule", ("node",),
             content=""),
    Variable("weight", "weight of the validation rule", "w_q^(v), eq:validation_error", ("node",), content=""),
    *(Variable(x, f"coordinate {x}", "", (x,), content="", label=f"coordinate ${x}$") for x in "xyz"),
)  # fmt: skip
"""Declarations of the coordinates that the methods record."""
_ROUNDING = (
    "mass_defect", "mass_defect_cross_grid", "quadrature_defect", "raw_resolution", "singular_values", "coefficients",
    "reference_coefficients", "offline_seconds", "online_seconds", "stage_seconds",
)  # fmt: skip
"""Names of variables that differ between machines, because they are rounding errors, signs or times."""
RECORDED = tuple(
    replace(
        each,
        estimand=GEOMETRIC_MEAN if "error" in each.name.split("_") else each.estimand,
        headline=int(each.name in ("error", "coefficient_error", "energy_drop_percent")),
        is_determined=each.name not in _ROUNDING,
    )
    for each in _RECORDED
)
"""Declarations of the scalars, histories and fields that the methods record."""
VARIABLES = {each.name: each for each in (*AXES, *RECORDED)}
"""Declarations of all variables of the methods, by name."""
REACH = VARIABLES["domain_reach"]
_MAX_POINTS = 100_000
"""Largest number of points per direction of a quadrature rule.  Domains limit the total number of nodes."""
_RULE = (
    f"a number of Gauss-Legendre points, at most {MAX_GAUSS_POINTS}, "
    'or off boxes { rule = "triangles", refinements = n, degree = m }, '
    'or { rule = "gauss_legendre" or "composite_midpoint", points = n }, '
    f"n at most {_MAX_POINTS:,}"
)


@lru_cache(maxsize=64)  # runs of all seeds share the value
def measure_reach(dictionary: Dictionary, dimension: int) -> Mapping[str, float]:
    """Return the variable `domain_reach` if the ball of the dictionary does not contain the domain, else nothing."""
    reach = dictionary.domain_reach(dimension)
    return {REACH.name: reach} if reach > REACH.limit else {}


def warn_of_reach(dictionary: Dictionary, dimension: int) -> None:
    """Issue an `AccuracyWarning` if the ball of the dictionary does not contain the domain."""
    for name, reach in measure_reach(dictionary, dimension).items():
        warn(f"{name} is {reach:.3g}, above {REACH.limit:g}: {REACH.warning}", AccuracyWarning)


def read_quadrature_rule(raw: Any) -> Value:
    """Return the rule of a study file, from a number of Gauss-Legendre points or from a table."""
    if isinstance(raw, (QuadratureRule, TriangleRule)):
        return raw
    given = dict(raw) if isinstance(raw, dict) else {"rule": "gauss_legendre", "points": raw}
    if (rule := given.pop("rule", None)) == TRIANGLES:
        return TriangleRule(**given)
    if set(given) != {"points"} or rule not in RULES:
        raise ValueError
    count: Any = integer(1, _MAX_POINTS)(given["points"])
    return QuadratureRule(rule, count)


def _read_reference(raw: Any) -> Value:
    """Return the name of a reference or of a user function, or a stored solution from its parts."""
    if isinstance(raw, StoredSolution) or (isinstance(raw, str) and ":" in raw):
        return raw
    if isinstance(raw, dict) and set(raw) == {"times", "coefficients", "attributes"}:
        return StoredSolution(**raw)
    return choice(REFERENCES)(raw)


def declare_parameters(*given: Parameter | str) -> dict[str, Parameter]:
    """Return declarations of parameters by name.  A string is the name of a parameter of `evolution`."""
    each = (EVOLUTION[one] if isinstance(one, str) else one for one in given)
    return {parameter.name: parameter for parameter in each}


EVOLUTION = declare_parameters(
    Parameter("dictionary", FAMILIES.wanted, registry_key(FAMILIES), "dictionary of prescribed features",
        short="dictionary", kinds=FAMILIES),
    Parameter("seed", "an integer >= 0", integer(0), "seed of the dictionary's random draws"),
    # The default is 1e-12.  With 1e-8, the space loses useful directions, and the error is 2.2e-2 instead of 4.5e-4
    # (tab:tau_diag).  With 1e-14, the error falls by a factor of four and the identity-mass defect is ten times larger.
    Parameter("tau", "in (0, 1)", real(0.0, 1.0), "τ", "eigenvalue threshold of the retained space, app:threshold",
        remedy="use e.g. 1e-12", default=1e-12),
    Parameter("decomposition", f"one of {', '.join(DECOMPOSITIONS)}", choice(tuple(DECOMPOSITIONS)),
        "directions of the retained space",
        "SVD of the weighted features, or eigenvalues of the mass matrix, eq:eig_phi; svd if left out", optional=True),
    Parameter("quadrature", _RULE, read_quadrature_rule, "assembly rule", "points per direction"),
    Parameter("validation", _RULE, read_quadrature_rule, "validation rule", "points per direction"),
    Parameter("dt", "a positive number", real(0.0), "Δt", "time step, eq:im_retained"),
    Parameter("final_time", "a positive number", real(0.0), "T", "final time"),
    Parameter("time_integrator", INTEGRATORS.wanted, registry_key(INTEGRATORS), "time integrator",
        default="implicit_midpoint", kinds=INTEGRATORS),
    Parameter("reference", f"one of {', '.join(REFERENCES)}, file.py:function, or the file.nc of one run",
        _read_reference, "what errors are measured against", "the problem's exact solution where left out",
        optional=True, resolve=find_reference_solution, takes_code=True),
    Parameter("reference_points", "an integer >= 1", integer(1), "interior points per direction of the reference",
        "of finite_elements its cells per direction, or refinements of the triangles", optional=True),
    Parameter("reference_dt", "a positive number", real(0.0), "time step of the reference",
        "if left out dt/8, and dt/2 for finite_elements", optional=True),
    Parameter("assessment", _RULE, read_quadrature_rule, "cross-grid assessment rule",
        "points per direction, app:cross_grid", optional=True),
    Parameter("coefficient_reference", f"one of {', '.join(COEFFICIENT_REFERENCES)}", choice(COEFFICIENT_REFERENCES),
        "reference of the final coefficients", "tab:temporal_convergence", optional=True),
    # SciPy replaces a smaller rtol by 100 machine epsilons, so the result would record a wrong value
    Parameter("coefficient_rtol", "in [2.3e-14, 1)", real(2.3e-14, 1.0, low_included=True),
        "relative tolerance of dop853", optional=True),
    Parameter("coefficient_atol", "a positive number", real(0.0), "absolute tolerance of dop853", optional=True),
    Parameter("coefficient_max_step", "a positive number", real(0.0), "largest step of dop853", optional=True),
)  # fmt: skip
"""Parameters of `evolution`, without the parameters of its dictionary, its integrator and its problem."""


# The parameters follow the name of their dictionary or integrator, so a reader finds them together in a result.
def add_kinds(parameters: Mapping[str, Parameter], named: Iterable[tuple[str, str, int]] = ()) -> dict[str, Parameter]:
    """Return the parameters of a method, including the parameters of its dictionaries and integrators.

    The list includes all dictionaries and integrators of this package, and the classes of other packages in `named`
    (`MethodSpec.kinds`).  A case has values only for the parameters of its own dictionary and integrator.

    Raises StudyError if two classes declare one parameter differently.
    """
    found: dict[str, Parameter] = {}
    owners: dict[str, type[Parametrised]] = {}
    chosen, free = tuple(named), {"default": None, "optional": True}
    for name, parameter in parameters.items():
        found[name] = parameter
        if parameter.kinds is not None:
            for each in dict.fromkeys([*parameter.kinds.own, *(each for of, each, _ in chosen if of == name)]):
                kind = parameter.kinds[each]
                for own, declaration in kind.parameters().items():
                    known, owner = found.get(own, declaration), owners.setdefault(own, kind)
                    if replace(declaration, **free) != replace(known, **free):
                        first, second = owner.__name__, kind.__name__
                        raise StudyError(
                            f"`{own}` must have one declaration, got {known.wanted} in {first} and "
                            f"{declaration.wanted} in {second}. Write `{own}: ... = same_as({first}, "
                            f'"{own}")`, or rename one of them.'
                        )
                    default = known.default if known.default == declaration.default else None
                    found[own] = replace(known, default=default, optional=True)
    for own in owners.keys() & parameters.keys():
        where = f"`{own}` of {owners[own].__name__}"
        raise StudyError(f"{where} must have another name, because the method has this parameter")
    return found


PARAMETERS = add_kinds(EVOLUTION)
"""Declarations of the parameters of `evolution`, by name."""


def list_kinds(parameters: Mapping[str, Parameter], values: Values) -> list[type[Parametrised]]:
    """Return the classes of the dictionary and of the integrator of a case."""
    names = [name for name, parameter in parameters.items() if parameter.kinds is not None and name in values]
    return [parameters[name].kinds[str(values[name])] for name in names]  # type: ignore[index]  # they have kinds


@lru_cache(maxsize=MAX_CACHED_TEXTS)  # neighbouring cases share these objects
def _create(kind: Any, positional: tuple[str, ...], *own: tuple[str, Value]) -> Any:
    return kind(*positional, **dict(own))


def _make_kind(parameter: str, kinds: Registry[Any], values: Values, *positional: str) -> Any:
    """Return the dictionary or the integrator of a case.  Raises ParameterError for a missing or invalid parameter."""
    kind = kinds[str(values[parameter])]
    given = [(name, values[name]) for name in kind.parameters() if name in values]
    for missing in {*kind.list_required_parameters(dict(given))} - {*values}:
        raise ParameterError(missing, f"given for {values[parameter]}", None)
    return _create(kind, positional, *given)


def make_dictionary(values: Values) -> Dictionary:
    """Return the dictionary of a case.  Raises ParameterError if its parameters are invalid."""
    dictionary: Dictionary = _make_kind("dictionary", FAMILIES, values, str(values["dictionary"]))
    return dictionary


def make_integrator(values: Values) -> Integrator:
    """Return the integrator of a case.  Raises ParameterError if its parameters are invalid."""
    integrator: Integrator = _make_kind("time_integrator", INTEGRATORS, values)
    return integrator

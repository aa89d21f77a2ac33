"""Data of a parabolic problem (eq:linear_parabolic) as NumPy functions.

    u_t = div(A(x, t) grad u) - b . grad u + g(u, x, t) - F'(u) + f(x, t) in the domain,    u(x, 0) = u_0(x)

A `Lifting` u_b gives the boundary values.  On natural faces n . (A grad u) = flux - transfer u.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isfunction

import numpy as np

from evogt_study.errors import AccuracyWarning, ParameterError, ProblemError, shorten, warn
from evogt_study.pde.domains import Domain, UnitCube
from evogt_study.pde.numerics import Array, Quadrature

NodalFunction = Callable[[Array, Array, float], Array]
"""Function of the solution u (Q,), the nodes (Q, d) and t that returns an array (Q,)."""
_CHECK_TIMES = np.array([0.0, 0.37, 1.0])
"""Times t / T at which the checks evaluate the data.  No usual modulation has a zero at 0.37."""
_TOLERANCE = 1e-9
"""Largest relative difference that counts as rounding.  The computed sin(40 pi) is 1e-14."""


@dataclass(frozen=True, eq=False)
class Separable:
    """Sum of products of functions of space and time, sum_k m_k(t) p_k(x).

    Parameters
    ----------
    profiles : callable
        Function of nodes (Q, d) that returns p_k (K, Q).  The solver assembles once per profile instead of each step.
    modulations : callable, optional
        Function of times (T,) that returns m_k (K, T).  By default the function has one profile and does not depend on
        time.

    Examples
    --------
    >>> wave = Separable(lambda nodes: nodes.T, lambda times: np.exp(-times)[None])
    >>> wave(np.array([[0.5], [1.0]]), np.array([0.0])).tolist()
    [[0.5, 1.0]]
    """

    profiles: Callable[[Array], Array]
    modulations: Callable[[Array], Array] | None = None

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Return the values at nodes and times, (Q, d) and (T,) -> (T, Q)."""
        # a product also for a single profile, because it raises an error for a wrong shape
        return self.evaluate_modulations(times).T @ self.profiles(nodes)

    def evaluate_modulations(self, times: Array) -> Array:
        """Return the modulations m_k at `times`, (T,) -> (K, T), which are ones for a steady function."""
        return np.ones((1, len(times))) if self.modulations is None else self.modulations(times)

    @property
    def steady(self) -> bool:
        """True if the function does not depend on time."""
        return self.modulations is None


@dataclass(frozen=True, eq=False)
class NonSeparable:
    """Function of space and time without a short sum of products.

    Parameters
    ----------
    at : callable
        Function of nodes (Q, d) and one time that returns values (Q,).

    Examples
    --------
    >>> pulse = NonSeparable(lambda nodes, t: np.exp(-((nodes[:, 0] - t) ** 2)))
    >>> pulse(np.array([[0.5]]), np.array([0.5, 1.5])).round(3).tolist()
    [[1.0], [0.368]]
    """

    at: Callable[[Array, float], Array]

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Return the values at nodes and times, (Q, d) and (T,) -> (T, Q)."""
        return np.stack([self.at(nodes, float(t)) for t in times])

    @property
    def steady(self) -> bool:
        """Always False, because a function that does not depend on time is separable."""
        return False


SpaceTimeFunction = Separable | NonSeparable


def multiply(one: SpaceTimeFunction, other: SpaceTimeFunction) -> Callable[[Array, Array], Array]:
    """Return the product of two functions of nodes and times."""
    return lambda nodes, times: one(nodes, times) * other(nodes, times)


@dataclass(frozen=True, eq=False)
class Tensor:
    """Symmetric diffusion tensor A.

    Parameters
    ----------
    entries : tuple of tuple
        Rows of functions of space and time, (d, d).  None means zero.  A_ij and A_ji must be one Python object.

    Raises
    ------
    ProblemError
        If the tensor is not square or not symmetric.

    Examples
    --------
    >>> one, half = (Separable(lambda nodes, a=a: np.full((1, len(nodes)), a)) for a in (1.0, 0.5))
    >>> Tensor(((one, half), (half, one)))(np.zeros((1, 2)), np.array([0.0])).tolist()
    [[[[1.0, 0.5], [0.5, 1.0]]]]
    """

    entries: tuple[tuple[SpaceTimeFunction | None, ...], ...]

    def __post_init__(self) -> None:
        rows = self.entries
        if any(len(row) != len(rows) for row in rows):
            raise ProblemError(f"`diffusion` must be a square tensor, got rows of {[len(row) for row in rows]}")
        if any(rows[i][j] is not rows[j][i] for i in range(len(rows)) for j in range(i)):
            raise ProblemError("`diffusion` must be a symmetric tensor, got different functions for A_ij and A_ji")

    @property
    def upper(self) -> dict[tuple[int, int], SpaceTimeFunction]:
        """Nonzero entries on the diagonal and above it."""
        count = range(len(self.entries))
        found = {(i, j): self.entries[i][j] for i in count for j in count if i <= j}
        return {place: entry for place, entry in found.items() if entry is not None}

    @property
    def steady(self) -> bool:
        return all(entry.steady for entry in self.upper.values())

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Return the tensors at nodes and times, (Q, d) and (T,) -> (T, Q, d, d)."""
        values = np.zeros((len(times), len(nodes), len(self.entries), len(self.entries)))
        for (i, j), entry in self.upper.items():
            values[..., i, j] = values[..., j, i] = entry(nodes, times)
        return values


Diffusion = SpaceTimeFunction | Tensor


def zero(nodes: Array) -> Array:
    """Return the profile of a zero source, (Q, d) -> (1, Q)."""
    return np.zeros((1, len(nodes)))


@dataclass(frozen=True, eq=False)
class Lifting:
    """Function u_b(x, t) with the Dirichlet data as boundary values, and its derivatives (remark nonhomo).

    Parameters
    ----------
    value, rate : Separable or NonSeparable
        Function u_b and its derivative in time.
    gradient, flux : tuple of functions
        Derivatives d u_b/dx_l and fluxes (A grad u_b)_l for each direction.
    lower_order : function, optional
        Terms b . grad u_b - c u_b of a problem with an advection or a linear reaction c u.
    formula : str, optional
        Formula of u_b, for descriptions of the problem.

    Examples
    --------
    >>> zero, one = (Separable(lambda nodes, a=a: np.full((1, len(nodes)), a)) for a in (0.0, 1.0))
    >>> linear = Separable(lambda nodes: nodes.T)  # u_b = x, with A = 1
    >>> Lifting(linear, zero, gradient=(one,), flux=(one,)).value.steady
    True
    """

    value: SpaceTimeFunction
    rate: SpaceTimeFunction
    gradient: tuple[SpaceTimeFunction, ...]
    flux: tuple[SpaceTimeFunction, ...]
    lower_order: SpaceTimeFunction | None = None
    formula: str = ""


@dataclass(frozen=True, eq=False)
class Potential:
    """Potential F(u) of a gradient flow, which adds -F'(u) to the right-hand side.

    Parameters
    ----------
    value, slope : callable
        Elementwise functions F and F'.

    Examples
    --------
    >>> allen_cahn = Potential(lambda u: (u**2 - 1) ** 2 / 4, lambda u: u**3 - u)
    >>> float(allen_cahn.value(np.float64(0.5)))
    0.140625
    """

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class NonlinearReaction:
    """Reaction g(u, x, t) that is nonlinear in u.

    Parameters
    ----------
    value, slope : callable
        Functions g and dg/du of u (Q,), nodes (Q, d) and one time that return arrays (Q,).

    Examples
    --------
    >>> growth = NonlinearReaction(lambda u, nodes, t: u * (1 - u), lambda u, nodes, t: 1 - 2 * u)
    >>> growth.value(np.array([0.5]), np.zeros((1, 1)), 0.0).tolist()
    [0.25]
    """

    value: NodalFunction
    slope: NodalFunction


@dataclass(frozen=True, eq=False)
class NaturalFace:
    """Natural boundary condition on one face: n . (A grad u) = flux - transfer u.

    Parameters
    ----------
    face : str
        Name of the face, such as "x0" for the lower and "x1" for the upper face in direction x.
    flux : Separable or NonSeparable
        Given outward flux.
    transfer : Separable or NonSeparable, optional
        Transfer coefficient, zero by default.

    Examples
    --------
    >>> NaturalFace("x0", Separable(lambda nodes: np.zeros((1, len(nodes))))).transfer is None
    True
    """

    face: str
    flux: SpaceTimeFunction
    transfer: SpaceTimeFunction | None = None


@dataclass(frozen=True, eq=False)
class Problem:
    """Parabolic problem given by functions.

    The equation is u_t = div(A grad u) - b . grad u + g(u) + f.

    Parameters
    ----------
    dimension : int
        Number of space dimensions d, 1 to 3.
    diffusion : Separable, NonSeparable, tuple or Tensor
        Scalar a, the diagonal of A, or the tensor A.
    initial : callable
        Initial value u_0, a function of nodes (Q, d) that returns an array (Q,).
    source : Separable or NonSeparable, optional
        Source f, zero by default.
    exact : Separable or NonSeparable, optional
        Exact solution u, with which runs measure errors.
    final_time : float, optional
        Final time T of runs that state no other time.
    name, parameters : str and mapping, optional
        Name of the problem, and its parameter values, for messages and results.
    lifting : Lifting, optional
        Function with the boundary values, which are zero by default.
    potential : Potential, optional
        Potential F of a gradient flow, which excludes advection and reaction.
    domain : Domain, optional
        Domain of the problem, by default the unit cube.
    advection : tuple of functions, optional
        Velocity b, one function for each direction.
    reaction : function or NonlinearReaction, optional
        Coefficient c of the linear reaction c u, or the reaction g(u, x, t).
    faces : tuple of NaturalFace, optional
        Faces with a natural boundary condition.
    exact_gradient : callable, optional
        Function of nodes (Q, d) and one time that returns grad u (d, Q).
    boundary_tolerance : float, optional
        Largest accepted relative difference between boundary values.

    Raises
    ------
    ParameterError
        If the domain and the problem have different dimensions.
    ProblemError
        If the data contradict each other.

    Examples
    --------
    >>> heat = Problem(
    ...     dimension=1,
    ...     diffusion=Separable(lambda nodes: np.full((1, len(nodes)), 0.1)),  # one profile, steady
    ...     initial=lambda nodes: np.sin(np.pi * nodes[:, 0]),
    ...     source=NonSeparable(lambda nodes, t: t * nodes[:, 0]),
    ... )
    >>> heat.source(np.array([[0.5], [1.0]]), np.array([0.0, 2.0])).tolist()
    [[0.0, 0.0], [1.0, 2.0]]
    """

    dimension: int
    diffusion: Diffusion
    initial: Callable[[Array], Array]
    source: SpaceTimeFunction = Separable(zero)
    exact: SpaceTimeFunction | None = None
    final_time: float | None = None
    name: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)
    lifting: Lifting | None = None
    potential: Potential | None = None
    domain: Domain = None  # type: ignore[assignment]  # `__post_init__` sets the default
    advection: tuple[SpaceTimeFunction, ...] | None = None
    reaction: SpaceTimeFunction | NonlinearReaction | None = None
    faces: tuple[NaturalFace, ...] = ()
    exact_gradient: Callable[[Array, float], Array] | None = None
    boundary_tolerance: float = 0.0

    def __post_init__(self) -> None:
        for name in ("diffusion", "source", "exact"):
            if isfunction(getattr(self, name)):
                remedy = "NonSeparable(lambda nodes, t: ...), or Separable(lambda nodes: ...) of shape (1, nodes)"
                raise ProblemError(f"`{name}` must be Separable or NonSeparable, got a plain function. Write {remedy}")
        if not callable(self.initial) or isinstance(self.initial, (Separable, NonSeparable)):
            raise ProblemError(f"`initial` must be a function of the nodes alone, got {shorten(self.initial)}")
        if self.domain is None:
            object.__setattr__(self, "domain", UnitCube(self.dimension))
        elif self.domain.dimension != self.dimension:
            raise ParameterError("domain", f"one of dimension {self.dimension}", self.domain)
        d = self.dimension
        if isinstance(self.diffusion, Tensor) and len(self.diffusion.entries) != d:
            raise ProblemError(f"`diffusion` must have {d} rows in {d}-D, got {len(self.diffusion.entries)}")
        if self.advection is not None and len(self.advection) != d:
            raise ProblemError(f"`advection` must have {d} entries in {d}-D, got {len(self.advection)}")
        if self.potential is not None and (self.reaction is not None or self.advection is not None):
            beside = "reaction" if self.reaction is not None else "advection"
            raise ProblemError(
                f"`{beside}` must be left out beside `potential`, because it is no part of the gradient flow"
            )
        named = sorted(face.face for face in self.faces)
        if named != sorted(self.domain.natural):
            wanted, got = ", ".join(self.domain.natural) or "none", ", ".join(named) or "none"
            raise ProblemError(f"`faces` must be the natural faces of the domain ({wanted}), got {got}")

    @property
    def is_linear(self) -> bool:
        """True if the problem has no potential and no nonlinear reaction."""
        return self.potential is None and not isinstance(self.reaction, NonlinearReaction)

    @property
    def linear_reaction(self) -> SpaceTimeFunction | None:
        """Coefficient c of a linear reaction c u, or None if the reaction is absent or nonlinear."""
        return None if isinstance(self.reaction, NonlinearReaction) else self.reaction

    @property
    def has_steady_operator(self) -> bool:
        """True if the linear terms do not depend on time."""
        parts = self.diffusion, *(self.advection or ()), self.linear_reaction, *(face.transfer for face in self.faces)
        return all(part is None or part.steady for part in parts)

    @property
    def has_steady_load(self) -> bool:
        """True if the source, the boundary fluxes and the terms of the lifting do not depend on time."""
        parts: list[SpaceTimeFunction | None] = [self.source, *(face.flux for face in self.faces)]
        if (lifting := self.lifting) is not None:
            parts += [lifting.rate, *lifting.flux, lifting.lower_order]
            for face in self.faces:
                parts += [] if face.transfer is None else [face.transfer, lifting.value]
        return all(part is None or part.steady for part in parts)

    def lift_at(self, nodes: Array, t: float) -> Array | float:
        """Return the lifting u_b at one time, (Q, d) -> (Q,), or zero if the problem has no lifting."""
        return 0.0 if self.lifting is None else self.lifting.value(nodes, np.array([t]))[0]


def check_data(problem: Problem, final_time: float | None = None, flux: Sequence[SpaceTimeFunction] = ()) -> None:
    """Raise ProblemError if the data contradict each other.  `flux` is A grad u of the exact solution (remark nonhomo).

    Initial data that differ from the boundary values give an `AccuracyWarning`, because the problem is well posed.
    """
    rule, exact = problem.domain.quadrature(problem.domain.usual_rule), problem.exact
    with np.errstate(all="ignore"):
        _check_boundary(problem, rule.nodes, _CHECK_TIMES * (final_time or problem.final_time or 1.0))
        _check_periodic(problem, rule.nodes, flux)
        if flux:
            _check_fluxes(problem, rule, flux)
        if exact is not None:
            values = exact(rule.nodes, np.zeros(1))[0]
            _compare(problem, values - problem.initial(rule.nodes), values, "`exact` at t = 0 must equal `initial`")


def _compare(problem: Problem, excess: Array, scale: Array | float, wanted: str, where: str = "") -> None:
    """Raise ProblemError unless the differences `excess` are negligible relative to the largest value in `scale`."""
    size = float(np.abs(excess).max())
    if not _is_negligible(size, float(np.abs(scale).max()), problem):
        raise ProblemError(f"{wanted}, got a difference of {size:.3g}{where}{describe_parameters(problem)}")


def _check_boundary(problem: Problem, nodes: Array, times: Array) -> None:
    on_boundary = problem.domain.boundary_points()
    if not len(on_boundary):
        return
    key, stated = "exact", problem.exact or NonSeparable(lambda nodes, t: problem.initial(nodes))
    if problem.exact is None:  # without an exact solution, check the initial value
        key, times = "initial", times[:1]
    lifted = np.zeros((1, 1)) if problem.lifting is None else problem.lifting.value(on_boundary, times)
    excess = np.abs(stated(on_boundary, times) - lifted).max(axis=1)
    scale = max(float(np.abs(stated(nodes, times)).max()), float(np.abs(lifted).max()))
    bad = [not _is_negligible(float(each), scale, problem) for each in excess]
    if not any(bad):
        return
    wanted, got = ("vanish", "a value") if problem.lifting is None else ("equal `lifting`", "a difference")
    remedy = ". State other boundary values as `lifting`" if problem.lifting is None else ""
    text = f"{wanted} on the boundary, got {got} of {excess.max():.3g} there{describe_parameters(problem)}{remedy}"
    if any(bad[1:]) or not np.isfinite(excess).all():
        raise ProblemError(f"`{key}` must {text}")
    warn(
        f"`{key}` at t = 0 should {text}. The solution is not smooth at the start. To damp its fast modes, use "
        "`start = { implicit_euler_half_steps = 4 }` or an L-stable integrator",
        AccuracyWarning,
    )


def _check_periodic(problem: Problem, nodes: Array, flux: Sequence[SpaceTimeFunction]) -> None:
    stated: dict[str, Callable[[Array], Array]] = {"`initial`": problem.initial}
    if problem.exact is not None:
        stated = {"`exact`": partial(problem.exact, times=_CHECK_TIMES)}
    if problem.lifting is not None:
        stated["`lifting`"] = partial(problem.lifting.value, times=_CHECK_TIMES)
    for axis, ends in problem.domain.periods().items():
        if flux:
            stated["the flux `diffusion` * grad(`exact`)"] = partial(flux[axis], times=_CHECK_TIMES)
        lower, upper = (np.where(np.arange(problem.dimension) == axis, side, nodes) for side in ends)
        for data, function in stated.items():
            wanted = f"{data} must be periodic in {'xyz'[axis]}"
            _compare(problem, function(lower) - function(upper), function(nodes), wanted, " between its faces")


def _check_fluxes(problem: Problem, rule: Quadrature, flux: Sequence[SpaceTimeFunction]) -> None:
    for data in problem.faces:
        nodes, normals, times = rule.faces[data.face].nodes, rule.faces[data.face].normals, _CHECK_TIMES
        assert normals is not None  # noqa: S101  # rules on faces have normals
        given = data.flux(nodes, times)
        if data.transfer is not None and problem.exact is not None:
            given = given - data.transfer(nodes, times) * problem.exact(nodes, times)
        outward = np.sum([n * part(nodes, times) for n, part in zip(normals.T, flux, strict=True)], axis=0)
        scale = max(float(np.abs(values).max()) for values in (given, *(part(rule.nodes, times) for part in flux)))
        _compare(problem, outward - given, scale, f"`exact` must have the flux that `boundary.{data.face}` states")


def check_terms(problem: Problem, method: str) -> None:
    """Raise ProblemError for a term that a `method` for scalar diffusion does not support."""
    terms = isinstance(problem.diffusion, Tensor), problem.advection is not None, problem.reaction is not None
    extra = [name for name, there in zip(("diffusion tensor", "advection", "reaction"), terms, strict=True) if there]
    if extra:
        got = f"one with {' and '.join(extra)}"
        raise ProblemError(f"a problem for {method} must have scalar diffusion and a source only, got {got}")


def describe_parameters(problem: Problem) -> str:
    """Return the text " for NAME = VALUE, ..." with the parameters of the problem, for messages."""
    values = ", ".join(f"{name} = {value:g}" for name, value in problem.parameters.items())
    return f" for {values}" if values else ""


def _is_negligible(excess: float, scale: float, problem: Problem) -> bool:
    tolerance = max(_TOLERANCE, problem.boundary_tolerance)
    return bool(np.isfinite(excess)) and excess <= tolerance * max(scale, 1e-300)  # so that zero agrees with zero

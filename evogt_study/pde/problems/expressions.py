"""Conversion of symbolic expressions to functions of nodes and times, and the check of symbolic derivatives.

Symbolic derivatives do not show a jump of u or of the flux q = a grad u.  The derived source then misses the term of
the jump, and every method converges to a wrong function.  At a jump, the weak identity (r, v) = (q, grad v) for
r = -div q fails.  `measure_defect` tests the identity with products of sines on panels of Gauss-Legendre nodes.  A rule
that is too coarse for an oscillation or a kink also gives a defect.  Narrow windows around the defect distinguish both
causes.  The test misses an interface that is closer to a zero of the flux than the spacing of the nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
import sympy

from evogt_study.formulas import SPACE, compile_formulas, evaluate_formula, symbol
from evogt_study.pde.domains import UnitCube
from evogt_study.pde.galerkin.problem import NonSeparable, Separable, SpaceTimeFunction
from evogt_study.pde.numerics import Array, QuadratureRule

TIME = symbol("t")
COORDINATES = tuple(symbol(name) for name in SPACE)
_MAX_TERMS = 500
"""Largest number of terms of an expanded product.  With more terms a function that is not separated is cheaper."""
MAX_CANCELLATION = 1e-12
"""Relative error of the separated terms above which the whole formula replaces them."""

Terms = tuple[tuple[sympy.Expr, sympy.Expr], ...]
"""Pairs (m, p) of a modulation m(t) and a profile p(x)."""
Places = tuple[Array, Array]
"""Pair of arrays with nodes (Q, d) and times (T,)."""
_MAX_QUADRATURE_DEFECT = 1e-4
"""Largest relative defect that counts as quadrature error.  Smooth data have at most 2e-7, jumps 7.6e-4 and more."""
# the panels resolve these modes: 512 nodes in 1-D for 32 half waves, and 12 in 3-D because more take too much time
MODES = {1: 32, 2: 32, 3: 12}
PANELS = {1: 32, 2: 6, 3: 2}
"""Panels per direction, by dimension.  A test of the paper's data takes 0.5 ms in 1-D, 2 ms in 2-D and 15 ms in 3-D."""
_PANEL_POINTS = (16, 18, 20)
"""Nodes per panel in each direction.  Even and different numbers keep nodes off the middle and the diagonals."""
# at least as fine as the panels of the test with sines: one window then contains the interface
FIRST_WINDOWS = {1: 32, 2: 8, 3: 3}
# even and different numbers, like `_PANEL_POINTS`, but fewer nodes, because data are nearly linear in a narrow window
WINDOW_POINTS = (12, 10, 8)
_MIN_WIDTH = 1e-5
"""Width below which a layer counts as a jump.  Below 1e-6, rounding in asin(sin(pi*x)) shows next to its kink."""
MIN_LASTING_SHARE, HALVINGS = 0.4, 7
"""In windows 2^7 times narrower, the defect of a jump keeps at least 0.4 of its size.  A kink keeps 2^-7."""
MIN_VARIATION_SHARE = 0.1
"""Least defect of a jump, relative to the variation of the flux in the window.

Jumps have 0.14 to 0.9.  An allowed jump of the flux along an interface has 0.02, and a pole of a gradient has 0.06."""


@lru_cache(maxsize=512)  # once per process for all parameter values and runs, with a few kilobytes each
def separate(expression: sympy.Expr) -> Terms | None:
    """Return pairs (m_k, p_k) with expression = sum_k m_k(t) p_k(x), or None for a nonseparable expression.

    An expression of zero has no pairs.  Terms with one modulation form a pair.  Terms with one profile form a pair if
    that gives no more pairs.

    >>> x, t = COORDINATES[0], TIME
    >>> separate(sympy.exp(-t) * (sympy.sin(x) + 2) + 3 * sympy.exp(-t))
    ((exp(-t), sin(x) + 5),)
    """
    profiles: dict[sympy.Expr, sympy.Expr] = {}
    terms = _split_sum(expression)
    if terms is None:
        return None
    for term in terms:
        changing, profile = list[sympy.Expr](), list[sympy.Expr]()
        for factor in sympy.Mul.make_args(term):
            if factor.has(TIME) and factor.has(*COORDINATES):
                return None
            (changing if factor.has(TIME) else profile).append(factor)
        scale, modulation = sympy.Mul(*changing).as_coeff_Mul()
        profiles[modulation] = profiles.get(modulation, sympy.S.Zero) + scale * sympy.Mul(*profile)
    pairs = tuple((modulation, profile) for modulation, profile in profiles.items() if profile != 0)
    # the factors of each function of space, without constants, in one modulation
    modulations: dict[sympy.Expr, sympy.Expr] = {}
    for modulation, profile in pairs:
        for term in sympy.Add.make_args(profile):
            scale, shape = term.as_independent(*COORDINATES, as_Add=False)
            modulations[shape] = modulations.get(shape, sympy.S.Zero) + scale * modulation
    regrouped = tuple((modulation, shape) for shape, modulation in modulations.items() if modulation != 0)
    return regrouped if 1 < len(pairs) >= len(regrouped) else pairs


def _split_sum(expression: sympy.Expr) -> list[sympy.Expr] | None:
    """Expand the products that mix time and space, and return the terms, or None if there are too many."""
    if not (expression.has(TIME) and expression.has(*COORDINATES)):
        return [expression]
    if expression.is_Add:
        parts = [_split_sum(term) for term in expression.args]
        if any(part is None for part in parts) or sum(len(part or ()) for part in parts) > _MAX_TERMS:
            return None
        return [term for part in parts for term in part or ()]
    if expression.is_Mul:
        return _multiply_out([_split_sum(factor) for factor in expression.args])
    if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
        base, exponent = _split_sum(expression.base), int(expression.exp)
        if base is not None and len(base) == 1:
            return [base[0] ** exponent]
        return _multiply_out([base] * exponent) if exponent < _MAX_TERMS else None
    if isinstance(expression, sympy.exp):
        return _multiply_out([[sympy.exp(part)] for part in _split_sum(expression.args[0]) or [expression.args[0]]])
    if expression.is_Pow and not expression.base.has(TIME, *COORDINATES):
        return _multiply_out([[expression.base**part] for part in _split_sum(expression.exp) or [expression.exp]])
    return [expression]


def _multiply_out(factors: list[list[sympy.Expr] | None]) -> list[sympy.Expr] | None:
    """Expand a product of sums into a list of terms, or return None if the list is too long."""
    terms = [sympy.S.One]
    for factor in factors:
        if factor is None or len(terms) * len(factor) > _MAX_TERMS:
            return None
        terms = [left * right for left in terms for right in factor]
    return terms


def make_space_time_function(
    expression: sympy.Expr, values: Mapping[str, float], places: Places | None = None
) -> SpaceTimeFunction:
    """Return a `Separable` function, or a `NonSeparable` one if the separated terms overflow or cancel at `places`."""
    terms, whole = separate(expression), NonSeparable(make_nodal_function(expression, values))
    pairs = None if terms is None else terms or ((sympy.S.One, sympy.S.Zero),)
    # the whole formula is slower but finite
    if pairs is None or not _is_representable(pairs, values):
        return whole
    # evaluate profiles together, because they share most factors
    modulations, profiles = (compile_formulas(each, values) for each in zip(*pairs, strict=True))
    steady = len(pairs) == 1 and not pairs[0][0].has(TIME)
    made = Separable(
        lambda nodes: _fill_rows(profiles(name_coordinates(nodes)), len(nodes)),
        None if steady else lambda times: _fill_rows(modulations({"t": times}), len(times)),
    )
    if places is None:
        return made
    # terms that were multiplied out may cancel, such as the terms of (x - t - 1000)^4 on (1000, 1001)
    found, truth = made(*places), whole(*places)
    return whole if np.abs(found - truth).max() > MAX_CANCELLATION * np.abs(truth).max() else made


def _is_representable(pairs: Terms, values: Mapping[str, float]) -> bool:
    """Return True if the modulations and profiles do not overflow, as exp((t - x)/epsilon) may."""
    # monotone exponentials cause the overflow, so the corners show it
    corners = np.array(list(itertools.product((0.0, 1.0), repeat=len(SPACE))))
    with np.errstate(all="ignore"):
        return all(
            np.isfinite(evaluate_formula(modulation, {**values, "t": 1.0})).all()
            and not np.isinf(make_nodal_function(profile, values)(corners, 0.0)).any()
            for modulation, profile in pairs
        )


def make_gradient(
    expression: sympy.Expr, dimension: int, values: Mapping[str, float]
) -> Callable[[Array, float], Array]:
    """Return the gradient as a function of nodes (Q, d) and t -> (d, Q), which differentiates on its first call."""
    slopes = cache(lambda: [make_nodal_function(sympy.diff(expression, x), values) for x in COORDINATES[:dimension]])
    return lambda nodes, t: np.stack([slope(nodes, t) for slope in slopes()])


def make_elementwise(expression: sympy.Expr, name: str, values: Mapping[str, float]) -> Callable[[Array], Array]:
    """Return the elementwise function of the variable `name` that evaluates the expression."""
    evaluated = compile_formulas((expression,), values)
    return lambda array: np.array(np.broadcast_to(evaluated({name: array})[0], array.shape))


def name_coordinates(nodes: Array) -> dict[str, Array]:
    """Return the coordinates of nodes (Q, d) by name."""
    return dict(zip(SPACE, nodes.T, strict=False))


def make_nodal_function(expression: sympy.Expr, values: Mapping[str, float]) -> Callable[..., Array]:
    """Return the function of nodes (Q, d), t and further variables by name -> (Q,) that evaluates the expression."""
    evaluated = compile_formulas((expression,), values)
    return lambda nodes, t, **more: _fill_rows(evaluated({**name_coordinates(nodes), "t": t, **more}), len(nodes))[0]


def _fill_rows(values: list[Any], count: int) -> Array:
    """Stack numbers and arrays (count,) as rows of one array, in a third of the time of np.stack."""
    rows = np.empty((len(values), count))
    for row, value in zip(rows, values, strict=True):
        row[...] = value
    return rows


@dataclass(frozen=True, eq=False)
class WeakIdentity:
    """Identity (residual, v) = sum_l (flux_l, dv/dx_l) for v = 0 on the boundary, with pairs (l, flux_l) in `flux`."""

    residual: sympy.Expr
    flux: tuple[tuple[int, sympy.Expr], ...]

    @staticmethod
    def from_flux(*flux: tuple[int, sympy.Expr]) -> WeakIdentity:
        """Return the identity of a flux and its negative divergence, which is their weak divergence without jumps."""
        return WeakIdentity(-sum((sympy.diff(part, COORDINATES[axis]) for axis, part in flux), sympy.S.Zero), flux)

    def map_to_cube(self, lower: tuple[float, ...], upper: tuple[float, ...]) -> WeakIdentity:
        """Return the identity on a box, mapped to coordinates of the unit cube."""
        if all(low == 0.0 for low in lower) and all(high == 1.0 for high in upper):
            return self
        widths = [sympy.Float(high) - sympy.Float(low) for low, high in zip(lower, upper, strict=True)]
        mapped = {x: sympy.Float(low) + width * x for x, low, width in zip(COORDINATES, lower, widths, strict=False)}
        flux = tuple((axis, part.subs(mapped, simultaneous=True) / widths[axis]) for axis, part in self.flux)
        return WeakIdentity(self.residual.subs(mapped, simultaneous=True), flux)


def measure_defect(
    identity: WeakIdentity, dimension: int, values: Mapping[str, float], times: tuple[float, ...]
) -> float:
    """Return the dual norm of the defect relative to the L2 norm of the flux, or zero without a jump."""
    with np.errstate(all="ignore"):
        # the dual norm over all products of sines, which are orthogonal, and the norm of the flux
        lines, tested = [_make_sines(axis, PANELS[dimension], MODES[dimension]) for axis in range(dimension)], []
        slopes = [np.pi**2 / 2**dimension * np.arange(1, MODES[dimension] + 1) ** 2] * dimension
        for t in times:
            defects, _, squares = _test_identity(identity, lines, {**values, "t": t})
            dual = np.linalg.norm(defects / np.sqrt(reduce(np.add.outer, slopes)))
            tested.append((float(dual), float(np.sqrt(np.sum(squares)))))
        defect, size = np.linalg.norm(tested, axis=0)
        if not defect > _MAX_QUADRATURE_DEFECT * size:  # also true for NaN, which proves nothing
            return 0.0
        worst = times[int(np.argmax([part[0] for part in tested]))]
        return float(defect / size) if _is_a_jump(identity, dimension, {**values, "t": worst}) else 0.0


def _is_a_jump(identity: WeakIdentity, dimension: int, values: Mapping[str, float]) -> bool:
    """Return True if the defect persists in narrow windows around its maximum, unlike a quadrature error."""
    corner, width, panels = np.zeros(dimension), 1.0, FIRST_WINDOWS[dimension]
    jumps = []
    while width > _MIN_WIDTH:
        width /= panels
        lines = [_make_windows(axis, start, width, panels) for axis, start in enumerate(corner)]
        defect, means, squares = _test_identity(identity, lines, values)
        worst = np.unravel_index(np.argmax(np.abs(defect)), defect.shape)
        # An interface is as long as the window is wide.  The defect of a jump, divided by this area, is constant.
        jumps.append(np.abs(defect[worst]) / width ** (dimension - 1))
        corner, panels = corner + np.array(worst) * width / 2, 2
    variation = np.sum(squares, axis=0)[worst] - np.sum(np.square(means), axis=0)[worst] / width**dimension
    # || grad v ||^2 of a window function v: 2/15 and 1/105 are the integrals of its squared slope and its square on the
    # unit interval
    squared_slope = dimension * 2 / 15 / width * (width / 105) ** (dimension - 1)
    is_large = np.abs(defect[worst]) > MIN_VARIATION_SHARE * np.sqrt(variation * squared_slope)
    return bool(is_large and jumps[-1] > MIN_LASTING_SHARE * jumps[-1 - HALVINGS])


class _Line(NamedTuple):
    """Nodes (n,) in one direction, and arrays (K, n) of weighted test functions, slopes and ones."""

    nodes: Array
    values: Array
    slopes: Array
    ones: Array


@lru_cache(maxsize=6)  # one for each dimension and direction
def _make_sines(axis: int, panels: int, modes: int) -> _Line:
    """Return the test functions sin(k pi x) on the unit interval, for k = 1 to `modes`."""
    panel = UnitCube(1).quadrature(QuadratureRule("gauss_legendre", _PANEL_POINTS[axis]))
    nodes = ((np.arange(panels)[:, None] + panel.nodes[:, 0]) / panels).ravel()
    weights = np.tile(panel.weights / panels, (1, panels))
    frequencies = np.pi * np.arange(1, modes + 1)[:, None]
    sines, cosines = np.sin(frequencies * nodes), np.cos(frequencies * nodes)
    return _Line(nodes, weights * sines, weights * frequencies * cosines, weights)


def _make_windows(axis: int, start: float, width: float, panels: int) -> _Line:
    """Return the test functions s (1 - s)^2 in 2 `panels` - 1 overlapping windows."""
    window = UnitCube(1).quadrature(QuadratureRule("gauss_legendre", WINDOW_POINTS[axis]))
    s, windows = window.nodes[:, 0], np.arange(2 * panels - 1)
    nodes = start + width * (windows[:, None] / 2 + s)

    def spread(values: Array) -> Array:
        return np.asarray(np.kron(np.eye(len(windows)), window.weights * values))

    values, slopes = width * s * (1 - s) ** 2, (1 - s) * (1 - 3 * s)
    return _Line(nodes.ravel(), spread(values), spread(slopes), spread(np.full(len(s), width)))


def _test_identity(
    identity: WeakIdentity, lines: list[_Line], values: Mapping[str, float]
) -> tuple[Array, list[Array], list[Array]]:
    """Return the defect for each product of test functions, and the integrals of fluxes and squares, (K, ..., K)."""
    axes = np.meshgrid(*[line.nodes for line in lines], indexing="ij", sparse=True)  # factors of one x are cheap
    expressions = (identity.residual, *[component for _, component in identity.flux])
    found = compile_formulas(expressions, {})({**values, **dict(zip(SPACE, axes, strict=False))})
    residual, *flux = [np.broadcast_to(each, [len(line.nodes) for line in lines]) for each in found]
    defect, ones = _integrate_products(residual, [line.values for line in lines]), [line.ones for line in lines]
    for (axis, _), component in zip(identity.flux, flux, strict=True):
        defect = defect - _integrate_products(
            component, [line.slopes if i == axis else line.values for i, line in enumerate(lines)]
        )
    means, squares = ([_integrate_products(each**power, ones) for each in flux] for power in (1, 2))
    return defect, means, squares


def _integrate_products(nodal: Array, functions: list[Array]) -> Array:
    """Integrate nodal values (n, ..., n) times products of functions (K, n) of one coordinate, giving (K, ..., K)."""
    return reduce(lambda left, right: np.tensordot(left, right, axes=(0, 1)), functions, nodal)

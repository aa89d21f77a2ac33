"""Dictionaries with random layers of tanh: TransNet, GTransNet, Gaussian random features and uniform ELM.

On nodes of a tensor grid, which are sums x_a + x_b, products of exponentials give tanh of the first layer:

    tanh z = 1 - 2 / (exp(2 z) + 1),    exp(2 (z_a + z_b)) = exp(2 z_a) exp(2 z_b)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.pde.dictionaries.base import Dictionary, FirstOrder, Jet, join_directions, split_nodes
from evogt_study.pde.numerics import Array
from evogt_study.schema.parameters import integer, one_or_several, parameter_field, real, several

LARGEST_FACTOR = 300.0
"""Bound of |2 z_b|, so that no product exceeds exp(709.7), the largest floating-point number."""
LARGEST_EXPONENT = 400.0
"""Largest magnitude of 2 z_a.  For larger magnitudes, tanh is +-1 in double precision."""
LARGEST_SHIFT = 1e6
"""Bound of |t|, so that the rounding error of an exponent is small."""
MIN_ENTRIES_PER_EXPONENTIAL = 4
"""Least number of entries per exponential for which products are two to five times as fast as tanh."""
MIN_PRODUCT_ENTRIES = 1 << 14
"""Least number of entries for which products save time, because their factors take about 60 us."""
CACHE_BLOCK_ENTRIES = 1 << 14
"""Number of exponentials in one block.  The exponents stay in the processor cache for about forty passes."""
_Runs = tuple[Array, Array, int]
"""Outer and inner coordinates with sums that are the nodes, and the number of grid nodes before the first node."""


@dataclass(frozen=True, eq=False)
class AffineMap:
    """Affine functions z_i(x) = s_i . (x - c) + t_i with slopes s (n, d), shifts t (n,) and centre c (d,)."""

    slopes: Array
    shifts: Array
    centre: Array

    def __call__(self, nodes: Array, out: Array | None = None) -> Array:
        """Return z at `nodes`, (Q, d) -> (Q, n), in the array `out` if given."""
        if nodes.shape[1] == 1:  # products of one factor are faster without BLAS
            z = np.multiply(nodes - self.centre, self.slopes.T, out=out)
            z += self.shifts
            return z
        shifted = np.concatenate([nodes - self.centre, np.ones((len(nodes), 1))], axis=1)  # ones add the shifts
        return np.matmul(shifted, np.concatenate([self.slopes.T, self.shifts[None]]), out=out)

    def tanh(self, nodes: Array) -> Callable[[slice, Array], Array]:
        """Return the function that writes tanh z at a block of `nodes` (Q, d), by products if they save time."""
        products = factor_exponentials(self, nodes)
        return products.rows if products else lambda block, out: np.tanh(self(nodes[block], out), out=out)

    @cached_property
    def largest_slope(self) -> float:
        """Largest slope along a coordinate, or infinity if a shift exceeds `LARGEST_SHIFT`."""
        return float(np.abs(self.slopes).max()) if np.abs(self.shifts).max() < LARGEST_SHIFT else np.inf

    @cached_property
    def common_slopes(self) -> tuple[Array, Array, Array] | None:
        """Arrays s (1,), signs (n,) and exp(2 t_i) (1, n) of z_i = signs_i (s x + t_i), or None if slopes differ."""
        steepness = np.abs(self.slopes[:, 0])
        # one gamma in 1-D gives equal slopes up to the sign, because the directions are +-1
        if self.slopes.shape[1] > 1 or (steepness != steepness[0]).any():
            return None
        signs = np.copysign(1.0, self.slopes[:, 0])
        exponents = np.clip(2.0 * signs * self.shifts, -LARGEST_EXPONENT, LARGEST_EXPONENT)
        return steepness[:1], signs, np.exp(exponents)[None]


@dataclass(frozen=True, eq=False)
class Products:
    """Values tanh z times `signs` from exp(2 z) = outer[p // m] inner[p % m], with p = q + skipped at node q."""

    outer: Array
    inner: Array
    skipped: int = 0
    signs: Array | float = 1.0

    def rows(self, block: slice, out: Array) -> Array:
        """Write tanh z at the nodes of `block` to `out` (rows of the block, n), and return `out`."""
        first, end, run = block.start + self.skipped, block.stop + self.skipped, len(self.inner)
        for a in range(first // run, -(-end // run)):
            start, stop = max(first, a * run), min(end, (a + 1) * run)
            inner = self.inner[start - a * run : stop - a * run]
            np.multiply(inner, self.outer[a], out=out[start - first : stop - first])
        # tanh z = 1 - 2/(1 + exp(2 z)) in three passes in place
        out += 1.0
        np.divide(-2.0 * self.signs, out, out=out)
        out += self.signs
        return out


def factor_exponentials(affine: AffineMap, nodes: Array) -> Products | None:
    """Return the factors of exp(2 z), or None if the factors save no time or overflow."""
    if len(nodes) * len(affine.slopes) < MIN_PRODUCT_ENTRIES:
        return None
    x = nodes - affine.centre
    # "not <=" also excludes NaN, which infinity times zero gives
    if not 2.0 * affine.largest_slope * max(float(x.max()), -float(x.min())) <= LARGEST_FACTOR:
        return None
    if affine.common_slopes is not None:  # one exponential per node and one per function
        steepness, signs, outer = affine.common_slopes
        return Products(outer, _evaluate_exponentials(x, steepness[None]), 0, signs)
    runs = _split_tensor(x) if x.shape[1] > 1 else _split_uniform(x[:, 0])
    if runs is None or MIN_ENTRIES_PER_EXPONENTIAL * (len(runs[0]) + len(runs[1])) > len(nodes):
        return None
    outer, inner, skipped = runs
    leading, rows = affine.slopes.T[: outer.shape[1]], max(1, CACHE_BLOCK_ENTRIES // len(affine.slopes))
    parts = [outer[start : start + rows] for start in range(0, len(outer), rows)]
    factors = np.concatenate([_evaluate_exponentials(part, leading, affine.shifts) for part in parts])
    return Products(factors, _evaluate_exponentials(inner[:, None], affine.slopes.T[-1:]), skipped)


def _split_uniform(x: Array) -> _Runs | None:
    """Return about sqrt(Q) coarse and fine offsets of uniform coordinates (Q,), or None if their sums are inexact."""
    # With m near sqrt(Q), the number A + m of exponentials is least for A m = Q nodes.
    run = 1 << (len(x).bit_length() // 2)
    if len(x) % run:
        return None
    table = x.reshape(-1, run)
    fine = table[0] - table[0, 0]
    return (table[:, :1], fine, 0) if (table - table[:, :1] == fine).all() else None


def _split_tensor(x: Array) -> _Runs | None:
    """Return the outer and inner coordinates of `x` (Q, d) if the nodes are part of a tensor grid, else None."""
    starts = np.flatnonzero((x[1:, :-1] != x[:-1, :-1]).any(axis=1)) + 1
    # without a complete row of the grid, the length of the rows is unknown
    if len(starts) < 2:
        return None
    run = int(starts[1] - starts[0])
    # a block of nodes may start in the middle of a row
    skipped = -int(starts[0]) % run
    inner = x[starts[0] : starts[1], -1]
    places = np.arange(skipped, skipped + len(x))
    even = (starts + skipped) % run == 0
    if not (even.all() and np.array_equal(x[:, -1], inner[places % run])):
        return None
    outer = x[[0, *starts], :-1]
    return (outer, inner, skipped) if len(outer) == -(-(skipped + len(x)) // run) else None


def _evaluate_exponentials(x: Array, slopes: Array, shifts: Array | None = None) -> Array:
    """Return exp(2 (x s + t)), (A, n), with an error of a few units in the last place."""
    exponent, rest = _multiply_exactly(2.0 * x[:, :1], slopes[0])
    for column, slope in zip(2.0 * x.T[1:, :, None], slopes[1:], strict=True):
        product, lost = _multiply_exactly(column, slope)
        exponent, dropped = _add_exactly(exponent, product)
        rest += lost + dropped
    if shifts is not None:
        exponent, dropped = _add_exactly(exponent, 2.0 * shifts)
        rest += dropped
    result = np.exp(np.minimum(np.maximum(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT))  # twice as fast as np.clip
    # exp(rest) to first order is enough, because the rest is the rounding error of the exponent
    result += result * rest
    return result


def _multiply_exactly(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product and its rounding error (Dekker 1971)."""
    product, (a1, a2), (b1, b2) = a * b, _split_bits(a), _split_bits(b)
    lost = a1 * b1
    lost -= product
    for one, other in ((a1, b2), (a2, b1), (a2, b2)):
        lost += one * other
    return product, lost


def _split_bits(a: Array) -> tuple[Array, Array]:
    """Split a into a sum of two numbers of 26 bits each."""
    scaled = 134217729.0 * a  # 2^27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def _add_exactly(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@dataclass(frozen=True)
class TanhDictionary(Dictionary):
    """Features tanh(gamma_i (a_i . (x - centre) + radius xi_i)), eq:trans_feature, with random a_i and xi_i."""

    IN_BALL: ClassVar[bool] = False
    """True if |a_i| = 1 and |xi_i| <= 1, so that all hyperplanes of the first layer meet the ball of radius R."""

    gamma: float | tuple[float, ...] = parameter_field(
        "a positive number, or a list with one for each first-layer neuron", one_or_several(real(0.0)), "γ",
        "shape parameter of the first layer, eq:trans_feature",
    )  # fmt: skip
    _: KW_ONLY
    radius: float | None = parameter_field(
        "a positive number", real(0.0), "R", "radius of the ball that holds the domain", optional=True
    )
    centre: float | tuple[float, ...] = parameter_field(
        "a number, or a list with one for each direction", one_or_several(real()), "x_c",
        "centre of the ball that holds the domain", default=0.5,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        width = self.widths[0]
        if isinstance(self.gamma, tuple) and len(self.gamma) != width:
            wanted = f"one number or {width}, one per first-layer neuron"
            raise ParameterError("gamma", wanted, f"{len(self.gamma)} numbers")

    def check_dimension(self, dimension: int) -> None:
        """Raise ParameterError unless `centre` is a number or has one number per direction."""
        if isinstance(self.centre, tuple) and len(self.centre) != dimension:
            raise ParameterError("centre", f"one number or {dimension}, one per direction", self.centre)

    def labels(self, dimension: int) -> dict[str, Any]:
        return {"radius": choose_radius(dimension), **super().labels(dimension)}

    def find_ball(self, dimension: int) -> tuple[Array, float]:
        """Return the centre (d,) and the radius of the ball."""
        centre = np.broadcast_to(np.asarray(self.centre, dtype=float), (dimension,))
        return centre, choose_radius(dimension) if self.radius is None else self.radius

    def domain_reach(self, dimension: int) -> float:
        centre, radius = self.find_ball(dimension)
        farthest = float(np.linalg.norm(np.maximum(np.abs(centre), np.abs(1.0 - centre))))
        return farthest / radius if self.IN_BALL else 0.0

    @abstractmethod
    def draw_first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        """Draw directions a (width, d) and offsets xi (width,), in this order."""

    # The fresh generator and the order of the draws reproduce the numbers of the paper on every machine.
    def sample(self, seed: int, dimension: int) -> TanhFeatures:
        """Draw the directions, the offsets and then the weights of each layer, and return the features."""
        self.check_dimension(dimension)
        rng, width = np.random.default_rng(seed), self.widths[0]
        directions, offsets = self.draw_first_layer(rng, width, dimension)
        delta, layers = getattr(self, "delta", 0.0), pairwise(self.widths)  # none after the first in most families
        weights = tuple(rng.normal(0.0, np.sqrt(delta / before), (after, before)) for before, after in layers)
        gamma = np.broadcast_to(np.asarray(self.gamma, dtype=float), (width,))
        centre, radius = self.find_ball(dimension)
        return TanhFeatures(AffineMap(gamma[:, None] * directions, gamma * radius * offsets, centre), weights)


# the half diagonals are 0.5, 0.707 and 0.866, so the ball of radius R around the centre contains the cube
def choose_radius(dimension: int) -> float:
    """Return the default radius R = 0.8 for d = 1, 2 and R = 0.9 for d = 3, which exceeds half the diagonal."""
    return 0.9 if dimension == 3 else 0.8


def draw_unit_directions(rng: np.random.Generator, width: int, dimension: int) -> Array:
    """Draw directions uniformly on the unit sphere, (width, d)."""
    if dimension == 1:
        # This draw reproduces the paper.  Signs of normal draws would give other directions for a seed.
        return rng.choice(np.array([-1.0, 1.0]), size=(width, 1))
    directions = rng.standard_normal((width, dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions


class TransNet(TanhDictionary):
    """Dictionary with a_i uniform on the unit sphere and xi_i ~ U(0, 1)."""

    IN_BALL = True

    def draw_first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return draw_unit_directions(rng, width, dimension), rng.uniform(0.0, 1.0, width)


@dataclass(frozen=True)
class GTransNet(TanhDictionary):
    """Dictionary with a_i on the unit sphere and xi_i ~ U(-1, 1) (eq:gtrans_first), and further layers.

    A further layer is tanh(W psi) with W_ij ~ N(0, delta / N_previous) (eq:gtrans_second).
    """

    IN_BALL = True

    _: KW_ONLY
    N1: int | None = parameter_field(
        "an integer >= 1", integer(1), "width of the first hidden layer N_1", "used by gtransnet only", optional=True
    )
    hidden: tuple[int, ...] | None = parameter_field(
        "a list of integers >= 1", several(integer(1)), "widths of the hidden layers before the last",
        "used by gtransnet only", optional=True,
    )  # fmt: skip
    delta: float = parameter_field(
        "in (0, 1]", real(0.0, 1.0, high_included=True), "δ",
        "variance of further layers' weights times width, eq:variance_control", default=0.5,
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.N1 is not None and self.hidden is not None:
            raise ParameterError("hidden", "left out if `N1` is given", self.hidden, remedy="give one of the two")
        if self.N1 is None and self.hidden is None:
            raise ParameterError("N1", f"given for {self.family}", None, remedy="set N1 = 240 or hidden = [240]")
        super().__post_init__()
        # so that N1 and hidden give equal dictionaries
        object.__setattr__(self, "hidden", self.widths[:-1])
        object.__setattr__(self, "N1", None)

    @classmethod
    def list_required_parameters(cls, given: Collection[str]) -> tuple[str, ...]:
        return (*super().list_required_parameters(given), *(() if "hidden" in given else ("N1",)))

    @property
    def widths(self) -> tuple[int, ...]:
        return (*(self.hidden or ()), self.N) if self.N1 is None else (self.N1, self.N)

    def draw_first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return draw_unit_directions(rng, width, dimension), rng.uniform(-1.0, 1.0, width)


class GaussianRandomFeatures(TanhDictionary):
    """Dictionary with a_i ~ N(0, I) and xi_i ~ N(0, 1)."""

    def draw_first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return rng.standard_normal((width, dimension)), rng.standard_normal(width)


class UniformELM(TanhDictionary):
    """Dictionary with a_i ~ U(-1, 1)^d and xi_i ~ U(-1, 1)."""

    def draw_first_layer(self, rng: np.random.Generator, width: int, dimension: int) -> tuple[Array, Array]:
        return rng.uniform(-1.0, 1.0, (width, dimension)), rng.uniform(-1.0, 1.0, width)


@dataclass(frozen=True, eq=False)
class TanhFeatures:
    """Features psi: R^d -> R^N of a dictionary for one seed."""

    affine: AffineMap
    weights: tuple[Array, ...]

    @property
    def count(self) -> int:
        return int(self.weights[-1].shape[0] if self.weights else self.affine.slopes.shape[0])

    def values(self, nodes: Array) -> Array:
        """Return psi at `nodes`, (Q, d) -> (Q, N)."""
        values = np.empty((len(nodes), self.count))
        for block, s in self._evaluate_first_layer(nodes, None if self.weights else values):
            for weight in self.weights:
                s = np.tanh(s @ weight.T)
            if self.weights:
                values[block] = s
        return values

    def first_order(self, nodes: Array) -> FirstOrder:
        """Return psi and its first derivatives at `nodes` (Q, d), by the chain rule (eq:tanh_chain_compact)."""
        value, directions = np.empty((len(nodes), self.count)), self.affine.slopes.T
        slopes = np.empty((len(directions) if self.weights else 1, *value.shape))
        for block, s in self._evaluate_first_layer(nodes, None if self.weights else value):
            if not self.weights:
                np.subtract(1.0, np.multiply(s, s, out=slopes[0, block]), out=slopes[0, block])
                continue
            gradient = _compute_slope(s)
            for layer, weight in enumerate(self.weights):
                if layer == 0:  # one product for all directions
                    gradient = (gradient @ self._sloped_weights).reshape(len(s), -1, len(weight)).swapaxes(0, 1)
                else:
                    gradient = gradient @ weight.T
                s = np.tanh(s @ weight.T)
                gradient *= _compute_slope(s)
            value[block], slopes[:, block] = s, gradient
        return FirstOrder(value, slopes, None if self.weights else directions)

    def second_order(self, nodes: Array) -> Jet:
        """Return psi and its first and second derivatives at `nodes` (Q, d), by the chain rule."""
        s = np.empty((len(nodes), len(self.affine.slopes)))
        self.affine.tanh(nodes)(slice(0, len(nodes)), s)
        jet = _apply_tanh(s, self.affine.slopes.T[:, None, :], None)  # slopes (d, 1, N1) for all nodes
        for weight in self.weights:
            value, gradient, hessian = (part @ weight.T for part in jet)
            jet = _apply_tanh(np.tanh(value), gradient, hessian)
        return jet

    def _evaluate_first_layer(self, nodes: Array, out: Array | None = None) -> Iterator[tuple[slice, Array]]:
        """Yield each block of nodes with the values of the first layer (rows, N1), which are part of `out` if given."""
        write_block, width = self.affine.tanh(nodes), len(self.affine.slopes)
        for block in split_nodes(len(nodes), (width, *map(len, self.weights))):
            yield block, write_block(block, np.empty((block.stop - block.start, width)) if out is None else out[block])

    @property
    def strip(self) -> float:
        """Half the width of the strip about a line in which the first layer is analytic.  tanh has poles +-i pi/2."""
        return np.pi / 2.0 / max(self.affine.largest_slope, 1e-300)  # finite also for constant functions

    @cached_property
    def _sloped_weights(self) -> Array:
        """Products diag(a_l) W^T with the weights of the second layer, for all directions side by side, (N1, d N2)."""
        return join_directions(self.affine.slopes.T, self.weights[0].T)


def _compute_slope(s: Array) -> Array:
    """Return the derivative 1 - s^2 of tanh from its values s."""
    ds = s * s
    return np.subtract(1.0, ds, out=ds)


def _apply_tanh(s: Array, slopes: Array, curvatures: Array | None) -> Jet:
    """Return the jet of s = tanh z from the derivatives of z, with s' = 1 - s^2 and s'' = -2 s s'."""
    ds = _compute_slope(s)
    gradient = ds * slopes
    hessian = (-2.0 * s) * gradient[:, None] * slopes[None]
    if curvatures is not None:
        hessian += ds * curvatures
    return Jet(s, gradient, hessian)

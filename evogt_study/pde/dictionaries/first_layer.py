"""tanh of affine functions; on nodes whose coordinates repeat, by products of exponentials.

    tanh z = 1 - 2 / (exp(2 z) + 1),    exp(2 (z_a + z_b)) = exp(2 z_a) exp(2 z_b)

Nodes of a tensor grid are sums x_a + x_b of few different vectors each, so that an entry takes a product, two sums and
a division, on every processor; tanh takes 1.2 ns an entry with AVX-512 and 6 to 16 ns without, this 0.9 to 1.2 ns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evogt_study.pde.numerics.arrays import Array

LARGEST_FACTOR = 300.0
"""Bound of |2 z_b|, so that no product overflows: exp(709.7) is the largest number."""
LARGEST_EXPONENT = 400.0
"""Cut-off of 2 z_a: tanh is +-1 in double precision beyond it."""
LARGEST_SHIFT = 1e6
"""Bound of |t|, so that the rounding error of an exponent is small."""
FEWER = 4
"""Least number of entries for each exponential for which products save time: they take a fifth to a half of tanh."""
LEAST_ENTRIES = 1 << 14
"""Least number of entries for which products save time: the factors take some 60 us."""

CACHE_BLOCK_ENTRIES = 1 << 14
"""Number of exponentials in one block.  Some forty passes over their exponents stay in cache."""


@dataclass(frozen=True, eq=False)
class AffineMap:
    """Affine functions z_i(x) = s_i . (x - c) + t_i: slopes s (n, d), shifts t (n,), centre c (d,)."""

    slopes: Array
    shifts: Array
    centre: Array

    def __call__(self, nodes: Array, out: Array | None = None) -> Array:
        """Return z at `nodes`, (Q, d) -> (Q, n), in `out` if it is given."""
        if nodes.shape[1] == 1:  # products of one factor are faster without BLAS
            z = np.multiply(nodes - self.centre, self.slopes.T, out=out)
            z += self.shifts
            return z
        shifted = np.concatenate([nodes - self.centre, np.ones((len(nodes), 1))], axis=1)  # shifts join the product
        return np.matmul(shifted, np.concatenate([self.slopes.T, self.shifts[None]]), out=out)

    def tanh(self, nodes: Array) -> Direct | Products:
        """Return tanh z for blocks of the rows of `nodes` (Q, d)."""
        return _products(self, nodes) or Direct(self, nodes)

    @cached_property
    def steepest(self) -> float:
        """The largest slope along a coordinate; infinite if the shifts are so large that all functions are constant."""
        return float(np.abs(self.slopes).max()) if np.abs(self.shifts).max() < LARGEST_SHIFT else np.inf

    @cached_property
    def alike(self) -> Alike | None:
        """z_i = +-(s x + t_i) in one direction, or None if the slopes are not alike."""
        steepness = np.abs(self.slopes[:, 0])
        # alike they are with one gamma in 1-D, where directions are +-1
        if self.slopes.shape[1] > 1 or (steepness != steepness[0]).any():
            return None
        signs = np.copysign(1.0, self.slopes[:, 0])
        return Alike(steepness[:1], signs, np.exp(_in_range(2.0 * signs * self.shifts))[None])


class Alike(NamedTuple):
    """z_i = signs_i (steepness x + t_i): steepness (1,), signs (n,), exponentials exp(2 t_i) (1, n)."""

    steepness: Array
    signs: Array
    exponentials: Array


@dataclass(frozen=True, eq=False)
class Direct:
    """tanh of each entry, for nodes that form no tensor grid."""

    affine: AffineMap
    nodes: Array

    def rows(self, block: slice, out: Array) -> Array:
        """Return tanh z at the nodes of `block`, in `out` (rows of the block, n)."""
        return np.tanh(self.affine(self.nodes[block], out), out=out)


@dataclass(frozen=True, eq=False)
class Products:
    """tanh by exp(2 z) = outer[p // m] inner[p % m], p = q + skipped at node q, times `signs`."""

    outer: Array
    inner: Array
    skipped: int = 0
    signs: Array | float = 1.0

    def rows(self, block: slice, out: Array) -> Array:
        """Return tanh z at the nodes of `block`, in `out` (rows of the block, n)."""
        first, end, run = block.start + self.skipped, block.stop + self.skipped, len(self.inner)
        for a in range(first // run, -(-end // run)):
            start, stop = max(first, a * run), min(end, (a + 1) * run)
            inner = self.inner[start - a * run : stop - a * run]
            np.multiply(inner, self.outer[a], out=out[start - first : stop - first])
        # tanh z = 1 - 2/(1 + exp(2 z)): three passes in place
        out += 1.0
        np.divide(-2.0 * self.signs, out, out=out)
        out += self.signs
        return out


class _Runs(NamedTuple):
    """Nodes as sums of `outer` and, in the last coordinate, `inner`.  The first `skipped` nodes are missing."""

    outer: Array
    inner: Array
    skipped: int = 0


def _products(affine: AffineMap, nodes: Array) -> Products | None:
    """Return the factors of exp(2 z), or None if they save no time or overflow."""
    if len(nodes) * len(affine.slopes) < LEAST_ENTRIES:
        return None
    x = nodes - affine.centre
    # "not <=", so that NaN is refused too: infinitely steep times zero
    if not 2.0 * affine.steepest * max(float(x.max()), -float(x.min())) <= LARGEST_FACTOR:
        return None
    if affine.alike is not None:  # one exponential for each node, and for each function
        steepness, signs, outer = affine.alike
        return Products(outer, _exponentials(x, steepness[None]), 0, signs)
    runs = _tensor(x) if x.shape[1] > 1 else _uniform(x[:, 0])
    if runs is None or FEWER * (len(runs.outer) + len(runs.inner)) > len(nodes):
        return None
    leading, rows = affine.slopes.T[: runs.outer.shape[1]], max(1, CACHE_BLOCK_ENTRIES // len(affine.slopes))
    parts = [runs.outer[start : start + rows] for start in range(0, len(runs.outer), rows)]
    outer = np.concatenate([_exponentials(part, leading, affine.shifts) for part in parts])
    return Products(outer, _exponentials(runs.inner[:, None], affine.slopes.T[-1:]), runs.skipped)


def _uniform(x: Array) -> _Runs | None:
    """Return about sqrt(Q) coarse and fine offsets of uniform coordinates (Q,), or None if their sums are rounded."""
    # m about sqrt(Q), where A + m exponentials are fewest for A m = Q nodes
    run = 1 << (len(x).bit_length() // 2)
    if len(x) % run:
        return None
    table = x.reshape(-1, run)
    fine = table[0] - table[0, 0]
    return _Runs(table[:, :1], fine) if (table - table[:, :1] == fine).all() else None


def _tensor(x: Array) -> _Runs | None:
    """Return runs of nodes (Q, d) in which only the last coordinate changes by equal values, or None."""
    starts = np.flatnonzero((x[1:, :-1] != x[:-1, :-1]).any(axis=1)) + 1
    # no run is seen whole, by which its length would be known
    if len(starts) < 2:
        return None
    run = int(starts[1] - starts[0])
    # nodes come in blocks, which are cut anywhere: the first run may begin in its middle
    skipped = -int(starts[0]) % run
    inner = x[starts[0] : starts[1], -1]
    places = np.arange(skipped, skipped + len(x))
    even = (starts + skipped) % run == 0
    if not (even.all() and np.array_equal(x[:, -1], inner[places % run])):
        return None
    outer = x[[0, *starts], :-1]
    return _Runs(outer, inner, skipped) if len(outer) == -(-(skipped + len(x)) // run) else None


def _exponentials(x: Array, slopes: Array, shifts: Array | None = None) -> Array:
    """Return exp(2 (x s + t)), (A, k) and (k, n) and (n,) -> (A, n), to a few units in the last place."""
    exponent, rest = _exact_product(2.0 * x[:, :1], slopes[0])
    for column, slope in zip(2.0 * x.T[1:, :, None], slopes[1:], strict=True):
        product, lost = _exact_product(column, slope)
        exponent, dropped = _exact_sum(exponent, product)
        rest += lost + dropped
    if shifts is not None:
        exponent, dropped = _exact_sum(exponent, 2.0 * shifts)
        rest += dropped
    result = np.exp(_in_range(exponent))
    # exp(rest) to first order, which is enough: the rest is what rounding took from the exponent
    result += result * rest
    return result


def _in_range(exponent: Array) -> Array:
    return np.minimum(np.maximum(exponent, -LARGEST_EXPONENT), LARGEST_EXPONENT)  # in half the time of clip


def _exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product and its rounding error (Dekker 1971)."""
    product, (a1, a2), (b1, b2) = a * b, _halves(a), _halves(b)
    lost = a1 * b1
    lost -= product
    for one, other in ((a1, b2), (a2, b1), (a2, b2)):
        lost += one * other
    return product, lost


def _halves(a: Array) -> tuple[Array, Array]:
    """Split a into a sum of two numbers of 26 bits each."""
    scaled = 134217729.0 * a  # 2^27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def _exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)

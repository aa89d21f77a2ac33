"""The paper's four prescribed dictionaries: how they are sampled, and their values, gradients and Hessians.

A `Dictionary` holds scalars only and identifies a family of random features; `sample(seed, d)` draws one member of the
family as `Features`, which can be evaluated anywhere.  Draws use a fresh ``numpy.random.default_rng(seed)`` and are
made in a fixed order, so a seed means the same features on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.numerics.arrays import Array

FAMILIES = ("transnet", "gtransnet", "gaussian_rf", "uniform_elm")

BLOCK_ENTRIES = 1 << 17
"""Activations of one layer at a block of nodes (1 MB), which stay in cache; twice as many where the weights are larger
than that, and are read once for each block."""


def default_radius(dimension: int) -> float:
    """R = 0.8 for d = 1, 2 and 0.9 for d = 3: the unit cube's half diagonal with a margin."""
    return 0.9 if dimension == 3 else 0.8


@dataclass(frozen=True)
class Dictionary:
    """A family of N prescribed features psi_1, ..., psi_N.

    First layer, all families: tanh(gamma_i (a_i . (x - centre) + radius xi_i)) (eq:trans_feature, eq:gtrans_first).
    Further layers, gtransnet only: tanh(W psi), W_ij ~ N(0, delta / N_previous) (eq:gtrans_second,
    eq:variance_control).

    family   a_i                              xi_i
    transnet     uniform on the unit sphere   U(0, 1)
    gtransnet    uniform on the unit sphere   U(-1, 1)
    gaussian_rf  N(0, I)                      N(0, 1)
    uniform_elm  U(-1, 1)^d                   U(-1, 1)

    `hidden` are the widths of the layers before the last, which has width N; ``N1=240`` is short for
    ``hidden=(240,)``.  `gamma` is one number, or one per neuron of the first layer.  `radius` and `centre` default to
    the paper's R (see `default_radius`) and x_c = (1/2, ..., 1/2).

    Raises ParameterError for a value outside its range.
    """

    family: str
    N: int
    gamma: float | tuple[float, ...]
    hidden: tuple[int, ...]
    delta: float
    radius: float | None
    centre: float | tuple[float, ...]

    def __init__(
        self,
        family: str,
        N: int,
        gamma: float | tuple[float, ...] | list[float],
        *,
        N1: int | None = None,
        hidden: tuple[int, ...] | list[int] = (),
        delta: float = 0.5,
        radius: float | None = None,
        centre: float | tuple[float, ...] | list[float] = 0.5,
    ) -> None:
        if N1 is not None and hidden:
            raise ParameterError("hidden", "left out where `N1` is given", tuple(hidden), remedy="give one of the two")
        widths = (N1,) if N1 is not None else tuple(hidden)
        if family != "gtransnet":
            widths, delta = (), 0.5  # one layer: neither is used, so neither tells two dictionaries apart
        values = {
            "family": family,
            "N": N,
            "gamma": _scalar_or_tuple("gamma", gamma),
            "hidden": widths,
            "delta": float(delta),
            "radius": radius,
            "centre": _scalar_or_tuple("centre", centre),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.family not in FAMILIES:
            raise ParameterError("dictionary", f"one of {', '.join(FAMILIES)}", self.family)
        if self.family == "gtransnet" and not self.hidden:
            raise ParameterError("N1", "given for gtransnet", None, remedy="set N1 = 240 or hidden = [240]")
        if not _is_width(self.N):
            raise ParameterError("N", "an integer of at least 1", self.N)
        if not all(_is_width(width) for width in self.hidden):
            raise ParameterError("hidden", "integers of at least 1", self.hidden)
        gammas = np.atleast_1d(np.asarray(self.gamma, dtype=float))
        if not (np.isfinite(gammas).all() and (gammas > 0).all()):
            raise ParameterError("gamma", "positive", self.gamma)
        if isinstance(self.gamma, tuple) and len(self.gamma) != self.first_width:
            raise ParameterError(
                "gamma", f"one number or {self.first_width}, one per first-layer neuron", f"{len(self.gamma)} numbers"
            )
        if not 0 < self.delta <= 1:
            raise ParameterError("delta", "in (0, 1]", self.delta)
        if self.radius is not None and not 0 < self.radius < np.inf:
            raise ParameterError("radius", "positive and finite", self.radius)
        if not np.isfinite(self.centre).all():
            raise ParameterError("centre", "finite", self.centre)

    def check_dimension(self, dimension: int) -> None:
        """Raise ParameterError unless `centre` has one number, or one per direction."""
        if isinstance(self.centre, tuple) and len(self.centre) != dimension:
            raise ParameterError("centre", f"one number or {dimension}, one per direction", self.centre)

    @property
    def first_width(self) -> int:
        """Number of neurons in the first layer: N1 for gtransnet, N for the one-layer families."""
        return self.hidden[0] if self.hidden else self.N

    def sample(self, seed: int, dimension: int) -> Features:
        """Draw the features of `seed` on (0, 1)^`dimension`: directions, then offsets, then weights layer by layer."""
        rng = np.random.default_rng(seed)
        directions, offsets = _draw_first_layer(rng, self.family, self.first_width, dimension)
        widths = (*self.hidden, self.N) if self.hidden else (self.N,)
        weights = tuple(
            rng.normal(0.0, np.sqrt(self.delta / before), (after, before)) for before, after in pairwise(widths)
        )
        gamma = np.broadcast_to(np.asarray(self.gamma, dtype=float), (self.first_width,))
        radius = default_radius(dimension) if self.radius is None else self.radius
        self.check_dimension(dimension)
        centre = np.broadcast_to(np.asarray(self.centre, dtype=float), (dimension,))
        return Features(gamma[:, None] * directions, gamma * radius * offsets, centre, weights)


def _is_width(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= 1)


def _scalar_or_tuple(name: str, value: float | tuple[float, ...] | list[float]) -> float | tuple[float, ...]:
    try:
        return float(value) if np.ndim(value) == 0 else tuple(float(entry) for entry in value)  # type: ignore[arg-type,union-attr]  # by its dimension
    except (TypeError, ValueError):
        raise ParameterError(name, "a number, or a list of numbers", value) from None


def _draw_first_layer(rng: np.random.Generator, family: str, width: int, dimension: int) -> tuple[Array, Array]:
    """Directions (width, d) and offsets (width,), drawn in this order."""
    if family == "gaussian_rf":
        return rng.standard_normal((width, dimension)), rng.standard_normal(width)
    if family == "uniform_elm":
        return rng.uniform(-1.0, 1.0, (width, dimension)), rng.uniform(-1.0, 1.0, width)
    if dimension == 1:
        directions = rng.choice([-1.0, 1.0], size=(width, 1))
    else:
        directions = rng.standard_normal((width, dimension))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions, rng.uniform(0.0 if family == "transnet" else -1.0, 1.0, width)


class Jet(NamedTuple):
    """A vector of functions with its derivatives at Q points; a derivative that was not asked for is None.

    value (Q, n); gradient (d, Q, n); hessian (d, d, Q, n).
    """

    value: Array
    gradient: Array | None = None
    hessian: Array | None = None


class FirstOrder(NamedTuple):
    """Features at Q points with their first derivatives in factors.

    value (Q, n).  slopes (d, Q, n) are the derivatives where `directions` is None.  Else each feature varies along one
    direction, and slopes (1, Q, n) times directions (d, n) are the derivatives.
    """

    value: Array
    slopes: Array
    directions: Array | None = None

    @property
    def gradient(self) -> Array:
        """The derivatives, (d, Q, n)."""
        return self.slopes if self.directions is None else self.slopes * self.directions[:, None, :]

    def rows(self, block: slice) -> FirstOrder:
        """The points of `block`."""
        return FirstOrder(self.value[block], self.slopes[:, block], self.directions)

    def factor(self, matrix: Array) -> Array:
        """What `mapped` multiplies with, for this `matrix` (n, r)."""
        return matrix if self.directions is None else side_by_side(self.directions, matrix)

    def mapped(self, factor: Array) -> Array:
        """The derivatives times a matrix whose `factor` is given, (d, Q, r)."""
        if self.directions is None:
            return np.asarray(self.slopes @ factor)
        return np.asarray((self.slopes[0] @ factor).reshape(len(self.value), len(self.directions), -1).swapaxes(0, 1))


def side_by_side(directions: Array, matrix: Array) -> Array:
    """diag(a_l) M for all directions a_l, (d, n) and (n, r) -> (n, d r)."""
    return np.concatenate([direction[:, None] * matrix for direction in directions], axis=1)


@dataclass(frozen=True, eq=False)
class Features:
    """One sampled dictionary psi: R^d -> R^N.

    slopes (N1, d) holds gamma_i a_i, shifts (N1,) holds gamma_i R xi_i, weights the matrices of the further layers.
    """

    slopes: Array
    shifts: Array
    centre: Array
    weights: tuple[Array, ...]

    @property
    def count(self) -> int:
        """N, the number of features."""
        return int(self.weights[-1].shape[0] if self.weights else self.slopes.shape[0])

    def values(self, nodes: Array) -> Array:
        """psi at `nodes`, (Q, d) -> (Q, N), block by block."""
        values = np.empty((len(nodes), self.count))
        for block in self.blocks(len(nodes)):
            z = self._first(nodes[block], None if self.weights else values[block])
            for weight in self.weights:
                z = np.tanh(z, out=z) @ weight.T
            np.tanh(z, out=values[block])
        return values

    def first_order(self, nodes: Array) -> FirstOrder:
        """psi and its first derivatives at `nodes` (eq:tanh_chain_compact), those of one layer in factors."""
        if not self.weights:
            s = self._through(nodes, ())
            return FirstOrder(s, _slope(s)[None], self.slopes.T)
        value = np.empty((len(nodes), self.count))
        slopes = np.empty((nodes.shape[1], *value.shape))
        for block in self.blocks(len(nodes)):
            value[block], slopes[:, block] = self._layered(nodes[block])
        return FirstOrder(value, slopes)

    def _layered(self, nodes: Array) -> tuple[Array, Array]:
        """psi and its gradient where there is more than one layer, (Q, N) and (d, Q, N)."""
        s = self._through(nodes, ())
        gradient = (_slope(s) @ self._sloped_weights).reshape(len(s), -1, len(self.weights[0])).swapaxes(0, 1)
        s = np.tanh(s @ self.weights[0].T)
        gradient *= _slope(s)
        for weight in self.weights[1:]:
            s, gradient = np.tanh(s @ weight.T), gradient @ weight.T
            gradient *= _slope(s)
        return s, gradient

    def jet(self, nodes: Array, order: int) -> Jet:
        """psi at `nodes` with all derivatives up to `order` (0, 1 or 2), by the chain rule (eq:tanh_chain_compact)."""
        if order == 0:
            return Jet(self._through(nodes, self.weights))
        if order == 1:
            first = self.first_order(nodes)
            return Jet(first.value, first.gradient)
        jet = _tanh(Jet(self._first(nodes), self.slopes.T[:, None, :]))  # slopes (d, 1, N1): the same at every node
        for weight in self.weights:
            jet = _tanh(Jet(*(None if part is None else part @ weight.T for part in jet)))  # type: ignore[arg-type]  # the value is never None
        return jet

    def _first(self, nodes: Array, out: Array | None = None) -> Array:
        """gamma_i (a_i . (x - x_c) + R xi_i), (Q, d) -> (Q, N1); in `out`, where that is given."""
        if nodes.shape[1] == 1:  # products of one factor are faster without BLAS
            z = np.multiply(nodes - self.centre, self.slopes.T, out=out)
            z += self.shifts
            return z
        shifted = np.concatenate([nodes - self.centre, np.ones((len(nodes), 1))], axis=1)
        return np.matmul(shifted, self._affine, out=out)

    @cached_property
    def _affine(self) -> Array:
        """Slopes and shifts of the first layer, (d + 1, N1): the shifts join the product."""
        return np.concatenate([self.slopes.T, self.shifts[None]])

    def _through(self, nodes: Array, weights: tuple[Array, ...]) -> Array:
        """Activations after the first layer and the layers of `weights`."""
        s = self._first(nodes)
        np.tanh(s, out=s)
        for weight in weights:
            s = s @ weight.T
            np.tanh(s, out=s)
        return s

    @cached_property
    def _sloped_weights(self) -> Array:
        """diag(a_l) W^T of the second layer for all directions l side by side, (N1, d N2).

        The slopes a_l of the first layer, which are the same at all nodes, go into the matrix, so that one product of
        (1 - s^2) with it gives all directions.
        """
        return side_by_side(self.slopes.T, self.weights[0].T)

    def blocks(self, count: int) -> Iterator[slice]:
        """Slices of `count` nodes, each small enough for a layer's activations to stay in cache.

        The cut depends on the widths only, so that results do not depend on who asks.
        """
        widest = max(self.slopes.shape[0], *(weight.shape[0] for weight in self.weights), 1)
        heavy = any(weight.size > BLOCK_ENTRIES for weight in self.weights)
        size = max(32, (2 if heavy else 1) * BLOCK_ENTRIES // widest)
        return (slice(start, min(start + size, count)) for start in range(0, count, size))


def _slope(s: Array) -> Array:
    """tanh' = 1 - s^2 where s = tanh."""
    ds = s * s
    return np.subtract(1.0, ds, out=ds)


def _tanh(z: Jet) -> Jet:
    """tanh of a jet of order 2: s' = 1 - s^2, s'' = -2 s s' (eq:tanh_chain_compact); a missing Hessian of z is zero."""
    if z.gradient is None:  # it is the gradient that the Hessian of s comes from
        raise ValueError("`z` must have a gradient")
    s = np.tanh(z.value)
    ds = _slope(s)
    gradient = ds * z.gradient
    hessian = (-2.0 * s) * gradient[:, None] * z.gradient[None]
    if z.hessian is not None:
        hessian += ds * z.hessian
    return Jet(s, gradient, hessian)

"""The contract of a dictionary and of its features, and the dictionaries by name.

A dictionary is a family of prescribed features.  It is a class in its own file here, or in another package, which
registers it by an entry point.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError
from evogt_study.pde.numerics import Array
from evogt_study.registry import Registry
from evogt_study.schema.parameters import NO_PARAMETER, Parametrised, integer, parameter_field

FAMILIES: Registry[type[Dictionary]] = Registry("dictionary", "evogt_study.dictionaries")
"""Dictionaries by name, also from installed packages."""
BLOCK_ENTRIES = 1 << 17
"""Values of features at a block of nodes (1 MB), which stay in cache.  Twice as many if the weights between two layers
are larger, because these are read once for each block."""
Functions = Callable[[Array, int, int], Array]
"""Function of x (Q,), a count n and an order m that returns n functions with m derivatives, (m + 1, Q, n)."""


class Features(Protocol):
    """Functions psi: R^d -> R^N with their derivatives, the same wherever they are evaluated.

    On a line they may have a `strip`: half the width of that around the real axis in which they are analytic.  Sums of
    them are then interpolated for their errors.
    """

    @property
    def count(self) -> int:
        """Number of features N."""

    def values(self, nodes: Array) -> Array:
        """Evaluate psi at `nodes`, (Q, d) -> (Q, N)."""

    def first_order(self, nodes: Array) -> FirstOrder:
        """Evaluate psi and its first derivatives at `nodes` (Q, d)."""


class SmoothFeatures(Features, Protocol):
    """Features with second derivatives, which every dictionary samples."""

    def second_order(self, nodes: Array) -> Jet:
        """Evaluate psi with its first and second derivatives at `nodes` (Q, d)."""


class Jet(NamedTuple):
    """A vector of functions at Q points with its first and second derivatives."""

    value: Array  # (Q, n)
    gradient: Array  # (d, Q, n)
    hessian: Array  # (d, d, Q, n)


# in factors, since a feature of one layer varies along one direction: one array of slopes instead of d
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
        """Derivatives, (d, Q, n)."""
        return self.slopes if self.directions is None else self.slopes * self.directions[:, None, :]

    def rows(self, block: slice) -> FirstOrder:
        return FirstOrder(self.value[block], self.slopes[:, block], self.directions)

    def factor(self, matrix: Array) -> Array:
        """Return the factor by which `mapped` multiplies, for a `matrix` (n, r)."""
        return matrix if self.directions is None else join_directions(self.directions, matrix)

    def mapped(self, factor: Array) -> Array:
        """Return the derivatives times the matrix of this `factor`, (d, Q, r)."""
        if self.directions is None:
            return np.asarray(self.slopes @ factor)
        return np.asarray((self.slopes[0] @ factor).reshape(len(self.value), len(self.directions), -1).swapaxes(0, 1))


@dataclass(frozen=True)
class Dictionary(Parametrised, ABC):
    """Family of N features psi_1, ..., psi_N with its parameters.

    Parameters
    ----------
    family : str
        transnet, gtransnet, gaussian_rf, uniform_elm, legendre, sine or fourier, or the family of an installed package.
    N : int
        Number of output features.
    **parameters
        Parameters of the family, as in a study file.

    Raises
    ------
    ParameterError
        If the family is unknown, a parameter belongs to another family, or a value is outside its range.

    Examples
    --------
    >>> Dictionary("gtransnet", N=60, N1=240, gamma=20.0).widths
    (240, 60)
    """

    family: str = field(metadata=NO_PARAMETER)
    N: int = parameter_field("an integer >= 1", integer(1), "number of output features N")

    RANDOM: ClassVar[bool] = True
    """True if the features depend on the seed."""
    PERIODIC: ClassVar[bool] = False
    """True if the features are functions on a periodic box."""
    HAS_CONSTANT: ClassVar[bool] = False
    """True if the function 1 is one of the features."""

    if TYPE_CHECKING:  # each family has its own parameters

        def __init__(self, family: str, N: int, *values: Any, **parameters: Any) -> None: ...

    # a default for the family, since unpickling and copying make objects without arguments
    def __new__(cls, family: str = "", *values: Any, **parameters: Any) -> Dictionary:
        """Create an object of the class of the family if the base class is called."""
        kind = FAMILIES[family] if cls is Dictionary else cls
        for name in parameters.keys() - kind.parameters().keys():
            wanted = f"left out for {family}, whose parameters are {', '.join(kind.parameters())}"
            raise ParameterError(name, wanted, parameters[name])
        return object.__new__(kind)

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the layers.  The last one is N."""
        return (self.N,)

    def check_dimension(self, dimension: int) -> None:  # most families fit any
        """Raise ParameterError if the family, or a parameter, does not fit `dimension` directions."""

    def domain_reach(self, dimension: int) -> float:
        """Return max_x |x - x_c| / R over the unit cube, above 1 if the ball does not contain it; 0 without a ball."""
        return 0.0

    def content(self) -> dict[str, Any]:
        """Return name and parameters, which identify the dictionary."""
        return {"family": self.family, **self.values}

    def labels(self, dimension: int) -> dict[str, Any]:
        """Return the parameters for a result, with the defaults for `dimension` directions."""
        return dict(self.values)

    @abstractmethod
    def sample(self, seed: int, dimension: int) -> SmoothFeatures:
        """Draw the features of `seed` on (0, 1)^`dimension`."""


def split_nodes(count: int, widths: Sequence[int]) -> Iterator[slice]:
    """Cut `count` nodes into slices by the widths of the layers, so that the values of a layer stay in cache."""
    heavy = any(before * after > BLOCK_ENTRIES for before, after in itertools.pairwise(widths))
    size = max(32, (2 if heavy else 1) * BLOCK_ENTRIES // max(widths))  # 32: fewer rows are slow products
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


# d products with one matrix of d columns each are one product of BLAS, which is faster the larger it is
def join_directions(directions: Array, matrix: Array) -> Array:
    """Return diag(a_l) M for all directions a_l, (d, n) and (n, r) -> (n, d r)."""
    parts = [direction[:, None] * matrix for direction in directions]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def evaluate_features(dictionary: Dictionary, points: Any, seed: int = 0) -> Jet:
    """Evaluate all features of a dictionary with their derivatives.

    Parameters
    ----------
    dictionary : Dictionary
        A family with its parameters.
    points : array_like, shape (Q, d) or (Q,)
        Points of the unit cube.
    seed : int, default 0
        Seed of the random draws.

    Returns
    -------
    Jet
        `value` (Q, N), `gradient` (d, Q, N) and `hessian` (d, d, Q, N) of psi, without the boundary factor.

    Notes
    -----
    The chain rule through all layers (app:feature_derivatives), eq:tanh_chain_compact.

    Examples
    --------
    >>> from evogt_study import pde
    >>> dictionary = pde.Dictionary("gtransnet", N=5, N1=20, gamma=4)
    >>> pde.evaluate_features(dictionary, [0.25, 0.5]).hessian.shape
    (1, 1, 2, 5)
    """
    nodes = np.asarray(points, dtype=float)
    nodes = nodes.reshape(-1, 1) if nodes.ndim < 2 else nodes
    dictionary.check_dimension(nodes.shape[1])
    return dictionary.sample(seed, nodes.shape[1]).second_order(nodes)


# by total degree, not by the largest one: N features then resolve the same scale in every direction of space
@lru_cache(maxsize=16)
def by_total_degree(count: int, dimension: int) -> npt.NDArray[np.intp]:
    """Return the first `count` multi-indices by total degree, then in decreasing lexical order, (count, d)."""
    indices, degree = list[tuple[int, ...]](), 0
    while len(indices) < count:
        every = itertools.product(range(degree, -1, -1), repeat=dimension)
        indices += [index for index in every if sum(index) == degree]
        degree += 1
    return np.array(indices[:count])


@dataclass(frozen=True, eq=False)
class TensorProducts:
    """psi_k(x) = prod_l f_{k_l}(x_l) for the multi-indices k, (N, d), of functions f of one coordinate."""

    indices: npt.NDArray[np.intp]
    functions: Functions

    @property
    def count(self) -> int:
        return len(self.indices)

    def values(self, nodes: Array) -> Array:
        return self._tabulate(nodes, 0)()

    def first_order(self, nodes: Array) -> FirstOrder:
        along = self._tabulate(nodes, 1)
        return FirstOrder(along(), np.stack([along(i) for i in range(nodes.shape[1])]))

    def second_order(self, nodes: Array) -> Jet:
        along, axes = self._tabulate(nodes, 2), range(nodes.shape[1])
        hessian = np.stack([np.stack([along(i, j) for j in axes]) for i in axes])
        return Jet(along(), np.stack([along(i) for i in axes]), hessian)

    def _tabulate(self, nodes: Array, order: int) -> Callable[..., Array]:
        """Return psi at `nodes` differentiated along each of the arguments, at most `order`, by the product rule."""
        tables = [
            # each function of one coordinate is evaluated once, however many products have it
            self.functions(x, int(indices.max()) + 1, order)[:, :, indices]
            for x, indices in zip(nodes.T, self.indices.T, strict=True)
        ]
        return lambda *derived: np.asarray(prod(table[derived.count(axis)] for axis, table in enumerate(tables)))

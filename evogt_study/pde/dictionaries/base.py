"""Define dictionaries, which are families of prescribed features, and products of functions of one coordinate."""

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

from evogt_study.errors import InputError, ParameterError
from evogt_study.pde.numerics import Array
from evogt_study.registry import Registry
from evogt_study.schema.parameters import NO_PARAMETER, Parametrised, integer, parameter_field

FAMILIES: Registry[type[Dictionary]] = Registry("dictionary", "evogt_study.dictionaries")
"""Registry of dictionaries, which includes dictionaries of installed packages."""
BLOCK_ENTRIES = 1 << 17
"""Number of feature values in a block of nodes (1 MB), which fits in the processor cache."""
Functions = Callable[[Array, int, int], Array]
"""Function (x, n, m) that returns n functions of x (Q,) with their first m derivatives, (m + 1, Q, n)."""


class Features(Protocol):
    """Functions psi: R^d -> R^N with their first derivatives, evaluated at nodes (Q, d).

    In 1-D, features may have an attribute `strip`: half the width of the strip around the real axis in which the
    features are analytic.  The errors of their sums then use interpolation.
    """

    @property
    def count(self) -> int: ...
    def values(self, nodes: Array, /) -> Array: ...
    def first_order(self, nodes: Array, /) -> FirstOrder: ...


class SmoothFeatures(Features, Protocol):
    """Features with second derivatives, as every dictionary returns them."""

    def second_order(self, nodes: Array, /) -> Jet: ...


class Jet(NamedTuple):
    """Values of n functions at Q points with their first and second derivatives."""

    value: Array  # (Q, n)
    gradient: Array  # (d, Q, n)
    hessian: Array  # (d, d, Q, n)


# A feature of one layer varies along one direction, so one array of slopes replaces d arrays.
class FirstOrder(NamedTuple):
    """Values (Q, n) of features with slopes (d, Q, n), or with slopes (1, Q, n) and their `directions` (d, n)."""

    value: Array
    slopes: Array
    directions: Array | None = None

    @property
    def gradient(self) -> Array:
        """First derivatives of the features, (d, Q, n)."""
        return self.slopes if self.directions is None else self.slopes * self.directions[:, None, :]

    def apply(self, matrix: Array, block: slice = slice(None)) -> Array:
        """Return the derivatives times a `matrix` (n, r) at the nodes of `block`, (d, Q, r)."""
        if self.directions is None:
            return np.asarray(self.slopes[:, block] @ matrix)
        product = self.slopes[0, block] @ join_directions(self.directions, matrix)
        return np.asarray(product.reshape(len(product), len(self.directions), -1).swapaxes(0, 1))


@dataclass(frozen=True)
class Dictionary(Parametrised, ABC):
    """Family of N features psi_1, ..., psi_N with the parameters of the family.

    Parameters
    ----------
    family : str
        transnet, gtransnet, gaussian_rf, uniform_elm, legendre, sine, fourier, or a family of an installed package.
    N : int
        Number of output features.
    **parameters
        Parameters of the family.  A study file has equal names for these parameters.

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

    # `family` has a default, because unpickling and copying create objects without arguments
    def __new__(cls, family: str = "", *values: Any, **parameters: Any) -> Dictionary:
        """Create an object of the class that is registered for `family`."""
        kind = FAMILIES[family] if cls is Dictionary else cls
        for name in parameters.keys() - kind.parameters().keys():
            wanted = f"left out for {family}, whose parameters are {', '.join(kind.parameters())}"
            raise ParameterError(name, wanted, parameters[name])
        given = {*[*kind.parameters()][: len(values)], *parameters}
        missing = [name for name in kind.list_required_parameters(given) if name not in given]
        if family and not all(kind.parameters()[name].optional for name in missing):
            names = ", ".join(f"`{name}`" for name in missing)
            raise InputError(f"{names} must be given for {family}, got no value")
        return object.__new__(kind)

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of the layers, from the first layer to the N output features."""
        return (self.N,)

    def check_dimension(self, dimension: int) -> None:  # most families fit any dimension
        """Raise ParameterError if the family or a parameter does not fit `dimension` directions."""

    def domain_reach(self, dimension: int) -> float:
        """Return max_x |x - x_c| / R over the unit cube, at most 1 if the ball contains it, or 0 without a ball."""
        return 0.0

    def content(self) -> dict[str, Any]:
        """Return the family and the parameters, which identify the dictionary."""
        return {"family": self.family, **self.values}

    def labels(self, dimension: int) -> dict[str, Any]:
        """Return the parameters that a result records, with their defaults for `dimension` directions."""
        return dict(self.values)

    @abstractmethod
    def sample(self, seed: int, dimension: int) -> SmoothFeatures:
        """Return the features of `seed` on (0, 1)^`dimension`."""


def split_nodes(count: int, widths: Sequence[int]) -> Iterator[slice]:
    """Yield slices of `count` nodes for which the values of a layer fit in the processor cache."""
    # each block reads the weights between two layers once, so larger weights need larger blocks
    heavy = any(before * after > BLOCK_ENTRIES for before, after in itertools.pairwise(widths))
    size = max(32, (2 if heavy else 1) * BLOCK_ENTRIES // max(widths))  # products of fewer than 32 rows are slow
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


# One large BLAS product is faster than d small products.
def join_directions(directions: Array, matrix: Array) -> Array:
    """Return the products diag(a_l) M of all directions a_l side by side, (d, n) and (n, r) -> (n, d r)."""
    parts = [direction[:, None] * matrix for direction in directions]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def evaluate_features(dictionary: Dictionary, points: Any, seed: int = 0) -> Jet:
    """Evaluate all features of a dictionary with their derivatives.

    Parameters
    ----------
    dictionary : Dictionary
        Family of features with its parameters.
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
    The derivatives of tanh features follow by the chain rule through all layers (app:feature_derivatives,
    eq:tanh_chain_compact).

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


# The order is by total degree instead of largest degree, so N features resolve an equal scale in every direction.
@lru_cache(maxsize=16)
def by_total_degree(count: int, dimension: int) -> npt.NDArray[np.intp]:
    """Return the first `count` multi-indices, (count, d), by total degree and then in decreasing lexical order."""
    indices, degree = list[tuple[int, ...]](), 0
    while len(indices) < count:
        every = itertools.product(range(degree, -1, -1), repeat=dimension)
        indices += [index for index in every if sum(index) == degree]
        degree += 1
    return np.array(indices[:count])


@dataclass(frozen=True, eq=False)
class TensorProducts:
    """Features psi_k(x) = prod_l f_{k_l}(x_l) for multi-indices k, (N, d), and functions f of one coordinate."""

    indices: npt.NDArray[np.intp]
    functions: Functions

    @property
    def count(self) -> int:
        return len(self.indices)

    def values(self, nodes: Array) -> Array:
        return self._differentiate(nodes, 0)[0]

    def first_order(self, nodes: Array) -> FirstOrder:
        return FirstOrder(*self._differentiate(nodes, 1))

    def second_order(self, nodes: Array) -> Jet:
        return Jet(*self._differentiate(nodes, 2))

    def _differentiate(self, nodes: Array, order: int) -> tuple[Array, ...]:
        tables = [
            # evaluate each function of one coordinate only once for all products
            self.functions(x, int(indices.max()) + 1, order)[:, :, indices]
            for x, indices in zip(nodes.T, self.indices.T, strict=True)
        ]
        return multiply_out(tables, order)


def multiply_out(factors: Sequence[Sequence[Array] | Array], order: int) -> tuple[Array, ...]:
    """Return a product of functions of one coordinate, given by their derivatives, with derivatives up to `order`."""
    axes = range(len(factors))

    def along(*derived: int) -> Array:
        return np.asarray(prod(factor[derived.count(axis)] for axis, factor in enumerate(factors)))

    jet = [along()]
    if order > 0:
        jet.append(np.stack([along(axis) for axis in axes]))
    if order > 1:
        jet.append(np.stack([np.stack([along(row, column) for column in axes]) for row in axes]))
    return tuple(jet)

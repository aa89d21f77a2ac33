"""The data of a parabolic problem (eq:linear_parabolic), as functions that NumPy can evaluate.

    u_t - div(a(x, t) grad u) + F'(u) = f(x, t) in the domain,    u = u_b on the boundary,    u(x, 0) = u_0(x)

The boundary values are zero unless the problem has a `Lifting`, and F is absent unless it has a `Potential`.

A function of space and time is a `Separable` sum of modulation(t) x profile(x) where its terms split, else a
`NonSeparable` one.  Both answer the same call, ``function(nodes, times) -> (T, Q)``; the method uses the split to
assemble once per profile instead of once per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from evogt_study.errors import ParameterError
from evogt_study.numerics.arrays import Array
from evogt_study.numerics.domains import Domain, UnitCube


@dataclass(frozen=True, eq=False)
class Separable:
    """sum_k m_k(t) p_k(x).

    profiles: nodes (Q, d) -> (K, Q); modulations: times (T,) -> (K, T), or None for one profile that does not depend
    on time.
    """

    profiles: Callable[[Array], Array]
    modulations: Callable[[Array], Array] | None = None

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Values, (Q, d) and (T,) -> (T, Q)."""
        return self.modulated(times).T @ self.profiles(nodes)

    def modulated(self, times: Array) -> Array:
        """m_k at `times`, (T,) -> (K, T); ones for a function that does not depend on time."""
        return np.ones((1, len(times))) if self.modulations is None else self.modulations(times)

    @property
    def steady(self) -> bool:
        """Whether the function does not depend on time."""
        return self.modulations is None


@dataclass(frozen=True, eq=False)
class NonSeparable:
    """A function whose time and space do not split: (nodes (Q, d), t) -> (Q,)."""

    at: Callable[[Array, float], Array]

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Values, (Q, d) and (T,) -> (T, Q)."""
        return np.stack([self.at(nodes, float(t)) for t in times])

    @property
    def steady(self) -> bool:
        """Never: what does not depend on time is separable."""
        return False


SpaceTimeFunction = Separable | NonSeparable


def zero(nodes: Array) -> Array:
    """The profile of a source that is absent, (Q, d) -> (1, Q)."""
    return np.zeros((1, len(nodes)))


@dataclass(frozen=True, eq=False)
class Lifting:
    """u_b(x, t), whose trace is the Dirichlet data (remark nonhomo), with what the lifted load is made of.

    value u_b; rate u_b,t; gradient and flux: d u_b/dx_l and a d u_b/dx_l, one function for each direction.
    """

    value: SpaceTimeFunction
    rate: SpaceTimeFunction
    gradient: tuple[SpaceTimeFunction, ...]
    flux: tuple[SpaceTimeFunction, ...]


@dataclass(frozen=True, eq=False)
class Potential:
    """F(u) of a gradient flow, `value`, and F'(u), `slope`, both elementwise; Allen-Cahn has F = (u^2 - 1)^2/4.

    in_place: for a shape, u -> (F(u), F'(u)) as `at` has it; without one, `value` and `slope` are called.
    """

    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    in_place: Callable[[tuple[int, ...]], Callable[[Array], tuple[Array, ...]]] | None = None

    def at(self, shape: tuple[int, ...]) -> Callable[[Array], tuple[Array, ...]]:
        """u -> (F(u), F'(u)) for arrays of `shape`, for the steps of one run: the next call may overwrite both."""
        if self.in_place is not None:
            return self.in_place(shape)
        return lambda u: (self.value(u), self.slope(u))


@dataclass(frozen=True, eq=False)
class Problem:
    """diffusion a, source f, initial value u_0: nodes (Q, d) -> (Q,), and the exact solution u where it is known.

    `final_time` is the problem's customary T, used where a run names none.  `parameters` are the values the problem
    was made with, for labels.  Without a `domain` it is posed on the unit cube.  Raises ParameterError for a domain of
    another dimension.
    """

    dimension: int
    diffusion: SpaceTimeFunction
    initial: Callable[[Array], Array]
    source: SpaceTimeFunction = Separable(zero)
    exact: SpaceTimeFunction | None = None
    final_time: float | None = None
    name: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)
    lifting: Lifting | None = None
    potential: Potential | None = None
    domain: Domain = None  # type: ignore[assignment]  # never None once made

    def __post_init__(self) -> None:
        if self.domain is None:
            object.__setattr__(self, "domain", UnitCube(self.dimension))
        elif self.domain.dimension != self.dimension:
            raise ParameterError("domain", f"one of dimension {self.dimension}", self.domain)

"""The unit cube, and boxes with periodic directions and with faces of given flux."""

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from evogt_study.errors import ParameterError, ProblemError
from evogt_study.pde.dictionaries.base import Dictionary, Features, multiply_out
from evogt_study.pde.domains.base import Domain, map_features
from evogt_study.pde.numerics import MAX_NODES, RULES, Array, Quadrature, QuadratureRule, Rule

DIRECTIONS = ("x", "y", "z")
# The irregular coordinates ensure that no usual frequency vanishes at all points.
_CHECKED_COORDINATES = np.array([0.0, 0.113, 0.271, 0.5, 0.618, 0.839, 1.0])
"""Coordinates of the boundary points of checks: on the faces, in the middle, and at irregular places."""


# a separate type, so that older studies keep their run keys and results
class UnitCube(Domain):
    """The open unit interval, square or cube."""

    def quadrature(self, rule: Rule) -> Quadrature:
        return to_box(self).quadrature(rule)

    def boundary_factor(self, nodes: Array, order: int = 0) -> tuple[Array, ...]:
        """Return D = prod_l x_l (1 - x_l) with its derivatives."""
        return multiply_out([(x * (1.0 - x), 1.0 - 2.0 * x, np.full_like(x, -2.0)) for x in nodes.T], order)

    def boundary_points(self) -> Array:
        return to_box(self).boundary_points()

    def bounds(self) -> tuple[Array, Array]:
        return np.zeros(self.dimension), np.ones(self.dimension)


@dataclass(frozen=True)
class Box(Domain):
    """Open box from `lower` to `upper`.  Natural faces, such as "x0" and "x1", have a given flux."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    periodic: tuple[str, ...] = ()
    natural_faces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        d, extent = self.dimension, (self.lower, self.upper)
        for name, corner in zip(("lower", "upper"), extent, strict=True):
            if len(corner) != d or not np.isfinite(corner).all():
                raise ProblemError(f"`domain` must have {d} numbers as its `{name}` in {d}-D, got {list(corner)}")
        if not all(low < high for low, high in zip(*extent, strict=True)):
            got = f"{list(self.lower)} and {list(self.upper)}"
            raise ProblemError(f"`domain` must have `lower` below `upper`, got {got}")
        known = DIRECTIONS[:d]
        for name in self.periodic:
            if name not in known:
                raise ProblemError(f"`boundary` must name directions {', '.join(known)}, got {name!r}")
        for face in self.natural_faces:
            if face[:-1] not in known or face[-1] not in "01":
                faces = ", ".join(f"{axis}{side}" for axis in known for side in "01")
                raise ProblemError(f"`boundary` must name directions or faces {faces}, got {face!r}")
            if face[:-1] in self.periodic:
                where = f"{face}, a face of the periodic direction {face[:-1]}"
                raise ProblemError(f"`boundary` must have no data on {where}")

    def periods(self) -> dict[int, tuple[float, float]]:
        numbers = [DIRECTIONS.index(name) for name in self.periodic]
        return {axis: (self.lower[axis], self.upper[axis]) for axis in numbers}

    @property
    def widths(self) -> Array:
        """Widths upper - lower of the box, (d,)."""
        return np.subtract(self.upper, self.lower)

    def quadrature(self, rule: Rule) -> Quadrature:
        if not isinstance(rule, QuadratureRule):
            raise ParameterError("rule", f"{' or '.join(RULES)} on a box", str(rule))
        count = rule.points**self.dimension
        if count > MAX_NODES:
            got = f"{rule.points}^{self.dimension} = {count:,}"
            raise ParameterError("points", f"so few that the rule has at most {MAX_NODES:,} nodes", got)
        (along, weights), faces = rule.on_unit_interval, dict[str, Quadrature]()
        for face in self.natural_faces:
            axis, side = DIRECTIONS.index(face[0]), int(face[1])
            columns = [low + width * along for low, width in zip(self.lower, self.widths, strict=True)]
            columns[axis] = np.array([(self.lower, self.upper)[side][axis]])
            on_face, normal = tensor_points(columns), np.zeros(self.dimension)
            normal[axis] = 2.0 * side - 1.0
            face_weights = _multiply_weights([width * weights for i, width in enumerate(self.widths) if i != axis])
            faces[face] = Quadrature(on_face, face_weights, normals=np.broadcast_to(normal, on_face.shape))
        nodes = self.from_unit(tensor_points([along] * self.dimension))
        return Quadrature(nodes, float(np.prod(self.widths)) * _multiply_weights([weights] * self.dimension), faces)

    def boundary_factor(self, nodes: Array, order: int = 0) -> tuple[Array, ...]:
        """Return D = prod_l D_l, where D_l is s, 1 - s or s (1 - s) if the lower, upper or both faces have values."""
        factors = []
        for axis, (width, (below, above)) in enumerate(zip(self.widths, self.ends, strict=True)):
            s, one = (nodes[:, axis] - self.lower[axis]) / width, np.ones(len(nodes))
            value = (s if below else one) * (1.0 - s if above else one)
            slope = (below * (1.0 - s if above else one) - above * (s if below else one)) / width
            factors.append((value, slope, one * (-2.0 * (below and above)) / width**2))
        return multiply_out(factors, order)

    def from_unit(self, nodes: Array) -> Array:
        """Return points of the box for points of the unit cube, (Q, d) -> (Q, d)."""
        return np.asarray(np.asarray(self.lower) + self.widths * nodes)

    @property
    def ends(self) -> tuple[tuple[bool, bool], ...]:
        """True for each lower and each upper face with given values, as one pair per direction."""
        names = DIRECTIONS[: self.dimension]
        lower, upper = ([x not in self.periodic and x + side not in self.natural_faces for x in names] for side in "01")
        return tuple(zip(lower, upper, strict=True))

    def boundary_points(self) -> Array:
        points = tensor_points([_CHECKED_COORDINATES] * self.dimension)
        sides = [(axis, side) for axis, given in enumerate(self.ends) for side in (0, 1) if given[side]]
        on_face = [points[:, axis] == side for axis, side in sides]
        return self.from_unit(points[np.any(on_face, axis=0)] if on_face else points[:0])

    def bounds(self) -> tuple[Array, Array]:
        return np.asarray(self.lower, dtype=float), np.asarray(self.upper, dtype=float)

    @property
    def feature_dimension(self) -> int:
        return self.dimension + len(self.periodic)

    def features(self, dictionary: Dictionary, seed: int) -> Features:
        """Return the features on the box.  Each periodic direction gives two arguments of the features."""
        periodic = tuple(name in self.periodic for name in DIRECTIONS[: self.dimension])
        if dictionary.PERIODIC:  # these features are periodic functions of the coordinate
            if not all(periodic):
                raise ParameterError("dictionary", "nonperiodic on a box with faces", dictionary.family)
            inner, periodic = dictionary.sample(seed, self.dimension), (False,) * self.dimension
        else:
            inner = dictionary.sample(seed, self.feature_dimension)
        return map_features(self, dictionary, inner, periodic)


def _multiply_weights(along: list[Array]) -> Array:
    return np.asarray(reduce(np.multiply.outer, along, np.ones(1))).ravel()


@lru_cache(maxsize=16)  # the certificates of a run call this function nine times
def to_box(domain: Domain) -> Box:
    """Return a box or the unit cube as a `Box`.  Raises ParameterError for any other domain."""
    if isinstance(domain, UnitCube):
        return Box(domain.dimension, (0.0,) * domain.dimension, (1.0,) * domain.dimension)
    if not isinstance(domain, Box):
        raise ParameterError("domain", "a box", domain)
    return domain


def check_domain(domain: Domain, method: str, *kinds: type[Domain]) -> None:
    """Raise ProblemError unless the domain is the unit cube or one of `kinds`."""
    if not isinstance(domain, (UnitCube, *kinds)):
        wanted = "a box" if Box in kinds else "the unit cube"
        raise ProblemError(f"{method} must have a problem on {wanted}, got the domain {domain}")


def tensor_points(along: list[Array]) -> Array:
    """Return the points of a tensor grid with the coordinates `along` each direction, (n^d, d), in C order."""
    if len(along) == 1:
        # A copy, because the coordinates are cached and a user function may change its nodes.
        return np.array(along[0][:, None])
    return np.stack([grid.ravel() for grid in np.meshgrid(*along, indexing="ij")], axis=1)

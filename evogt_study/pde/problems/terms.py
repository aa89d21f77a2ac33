"""Formulas of the terms, tables of the diffusion, and the domain and boundary data of a problem."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy  # which imports its parts when they are first used
import sympy

from evogt_study.errors import FormulaError, ParameterError, ProblemError, shorten
from evogt_study.formulas import SPACE, parse, symbol
from evogt_study.pde.domains import Box, Disk, Domain, Mesh, Polygon, UnitCube, describe_domain, make_domain
from evogt_study.pde.domains.box import DIRECTIONS
from evogt_study.pde.galerkin.problem import NonSeparable, Separable, SpaceTimeFunction
from evogt_study.pde.numerics import Array
from evogt_study.storage.files import read_text
from evogt_study.study.model import TomlTable

MAX_TABLE_BYTES = 64 * 2**20
"""Largest size in bytes of a file with diffusion values.  A grid of 1,000 x 1,000 points takes 50 MB."""
SOLUTION = symbol("u")
"""Symbol of the solution in a potential and in a reaction."""
Rows = tuple[tuple[sympy.Expr, ...], ...]
"""Rows of a matrix of expressions."""
FaceData = str | tuple[tuple[str, str], ...]
Boundary = tuple[tuple[str, FaceData], ...]
"""Sorted pairs: a direction with the string "periodic", or a face with its named formulas."""
PERIODIC = "periodic"
_KINDS = ("flux",), ("outside", "transfer")
_WANTED = (
    "{ lower = [..], upper = [..] }, or in 2-D { disk = { centre = [..], radius = r } }, { polygon = [[x, y], ..] } or "
    '{ mesh = "file" }'
)


class ProblemTable(TomlTable):
    """Section ``[problem]`` of a study file.  `FormulaProblem` describes its keys."""

    dimension: Any
    fields: dict[str, Any] | None = None
    flux: list[Any] | None = None
    exact: str | None = None
    initial: str | None = None
    source: str | None = None
    domain: dict[str, Any] | None = None
    diffusion: str | list[Any] | dict[str, Any] = "1"
    advection: list[Any] | None = None
    reaction: str | None = None
    boundary: dict[str, Any] = {}  # noqa: RUF012  # pydantic gives each table a copy
    lifting: str | None = None
    potential: str | None = None
    boundary_tolerance: float = 0.0


@dataclass(frozen=True, eq=False)
class GridTable:
    """Values on a grid with linear interpolation.  Equal tables have equal checksums."""

    axes: tuple[tuple[float, ...], ...]
    values: Array

    @staticmethod
    def from_values(given: Any, dimension: int) -> GridTable:
        """Return the table of a CSV file or of its `content`.  Raises ParameterError."""
        if isinstance(given, GridTable):
            return given
        if isinstance(given, Mapping):
            axes, values = given.get("axes"), np.asarray(given.get("values"), dtype=float)
            if not isinstance(axes, (list, tuple)) or tuple(map(len, axes)) != values.shape or len(axes) != dimension:
                raise ParameterError("diffusion", "a table { axes = [[..], ..], values = [..] }", given)
            return GridTable(tuple(tuple(map(float, axis)) for axis in axes), values)
        text = read_text(Path(given), "the table of `diffusion`", max_bytes=MAX_TABLE_BYTES)
        names, *rows = (line.replace(" ", "").split(",") for line in text.splitlines() if line.strip())
        wanted = [*SPACE[:dimension], "value"]
        try:
            columns = np.array(rows, dtype=float)[:, [names.index(name) for name in wanted]]
        except (ValueError, IndexError):
            text = f"a table of numbers with the columns {', '.join(wanted)}"
            raise ParameterError("diffusion", text, given) from None
        places = [np.unique(column, return_inverse=True) for column in columns[:, :-1].T]
        shape = tuple(len(axis) for axis, _ in places)
        values = np.full(shape, np.nan)
        values[tuple(place for _, place in places)] = columns[:, -1]
        if len(columns) != values.size or not np.isfinite(values).all() or min(shape) < 2:
            got = f"{len(columns)} points for a grid of {' x '.join(map(str, shape))}"
            raise ParameterError("diffusion", "a table with one finite value at each point of a grid", got)
        return GridTable(tuple(tuple(axis.tolist()) for axis, _ in places), values)

    @property
    def content(self) -> dict[str, Any]:
        """JSON content of the table: the axes and the values."""
        return {"axes": self.axes, "values": self.values.tolist()}

    @cached_property
    def digest(self) -> str:
        """Checksum of the axes and the values."""
        return blake2b(repr(self.axes).encode() + self.values.tobytes(), digest_size=16).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GridTable) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __call__(self, nodes: Array) -> Array:
        """Return the interpolated values, (Q, d) -> (Q,).  Raises ProblemError for a node outside of the grid."""
        lower, upper = np.array([axis[0] for axis in self.axes]), np.array([axis[-1] for axis in self.axes])
        inside = np.clip(nodes, lower, upper)
        if not np.abs(inside - nodes).max() <= 1e-9 * (upper - lower).max():
            outside = nodes[np.abs(inside - nodes).max(axis=1).argmax()].round(6).tolist()
            message = f"the table of `diffusion` must cover the domain, got no value at {outside}"
            raise ProblemError(f"{message}. Extend the table to the boundary")
        return np.asarray(scipy.interpolate.RegularGridInterpolator(self.axes, self.values)(inside))

    def scale(self, function: SpaceTimeFunction) -> SpaceTimeFunction:
        """Return the product of the table and a function of space and time."""
        if isinstance(function, Separable):
            return Separable(lambda nodes: self(nodes) * function.profiles(nodes), function.modulations)
        return NonSeparable(lambda nodes, t: self(nodes) * function.at(nodes, t))


def parse_diffusion(raw: Any, dimension: int) -> sympy.Expr | Rows:
    """Parse a formula, the diagonal or the rows of the diffusion.  Raises FormulaError."""
    if not isinstance(raw, (list, tuple)):
        return parse_term(raw, "diffusion", dimension)
    if len(raw) != dimension:
        wanted = f"{dimension} formulas or {dimension} rows of them"
        raise FormulaError(f"`diffusion` must be a formula, or {wanted} in {dimension}-D, got {shorten(raw)}")
    if all(isinstance(row, str) for row in raw):
        raw = [[text if i == j else "0" for j in range(dimension)] for i, text in enumerate(raw)]
    rows = [
        [parse_term(text, "diffusion", dimension) for text in read_texts(row, "diffusion", dimension)] for row in raw
    ]
    for i in range(dimension):
        for j in range(i):
            # simplified, because equal entries may have different formulas
            if sympy.simplify(rows[i][j] - rows[j][i]) != 0:
                got = f"{shorten(raw[i][j], 60)} and {shorten(raw[j][i], 60)}"
                raise FormulaError(f"`diffusion` must be symmetric, got {got} off the diagonal")
    # one expression for A_ij and A_ji, because `Tensor` requires the same function for both
    return tuple(tuple(rows[min(i, j)][max(i, j)] for j in range(dimension)) for i in range(dimension))


def read_texts(raw: Any, key: str, dimension: int) -> tuple[str, ...]:
    """Check that `raw` is a list with one formula for each direction.  Raises FormulaError."""
    if not isinstance(raw, (list, tuple)) or len(raw) != dimension or not all(isinstance(part, str) for part in raw):
        raise FormulaError(f"`{key}` must be a list of {dimension} formulas in {dimension}-D, got {shorten(raw)}")
    return tuple(raw)


def parse_term(
    text: str, key: str, dimension: int, *, steady: bool = False, without: Collection[str] = ("u",),
    solutions: Collection[str] = ("u",),
) -> sympy.Expr:  # fmt: skip
    """Parse a formula in the coordinates, t and parameters, but not in the fields `without`.  Raises FormulaError."""
    expression = parse(text, key)
    used = {str(name) for name in expression.free_symbols}
    if second := [name for name in sorted(used) if re.fullmatch(f"({'|'.join(solutions)})_[xyz]{{2,}}", name)]:
        remedy = "State the term by `diffusion` or `flux`"
        raise FormulaError(f"`{key}` must not contain second derivatives, got {second[0]} in {text!r}. {remedy}")
    if outside := used & set(SPACE[dimension:]):
        wanted = f"the coordinates {', '.join(SPACE[:dimension])} of a {dimension}-D problem"
        raise FormulaError(f"`{key}` must use {wanted}, got {', '.join(sorted(outside))} in {text!r}")
    if fields := sorted(used.intersection(without)):
        remedy = f"Write a term in {fields[0]} as `reaction`, or rename the parameter"
        raise FormulaError(f"`{key}` must not contain the solution {fields[0]}, got {text!r}. {remedy}")
    if steady and "t" in used:
        raise FormulaError(f"`{key}` must not depend on t, got {text!r}")
    return expression


@dataclass(frozen=True, kw_only=True)
class FormulaStatement:
    """Base class of problems given by formulas."""

    problem_kind: ClassVar[str] = "pde"

    dimension: int
    domain: Any = None
    boundary: Any = ()
    boundary_tolerance: float = 0.0
    final_time: float | None = None
    name: str = ""

    def read_geometry(self) -> None:
        """Convert boundary and domain to their normal form.  Raises ParameterError for an invalid value."""
        tolerance = self.boundary_tolerance
        if type(self.dimension) is not int or self.dimension not in (1, 2, 3):
            raise ParameterError("dimension", "1, 2 or 3", self.dimension)
        if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0.0 <= tolerance < 1.0:
            raise ParameterError("boundary_tolerance", "a number in [0, 1)", tolerance)
        object.__setattr__(self, "boundary", read_boundary(self.boundary))
        object.__setattr__(self, "domain", read_domain(self.dimension, self.domain, self.boundary))

    def describe_shape(self, *, whole: bool = True) -> dict[str, Any]:
        """Return the domain for the content of the problem, or nothing for the unit cube."""
        return {} if type(self.domain) is UnitCube else {"domain": describe_domain(self.domain, whole=whole)}

    @property
    def content(self) -> dict[str, Any]:
        """JSON content that describes the problem, without default values."""
        raise NotImplementedError

    @property
    def table(self) -> dict[str, Any]:
        """Section ``[problem]`` of a study file.  Raises FormulaError for a problem with functions."""
        table = {name: each for name, each in self.content.items() if name not in ("name", "final_time")}
        if "terms" in table:
            raise FormulaError("a problem with `FieldTerms` needs a Python file. Write problem = 'file.py:NAME'")
        for part in (table, *table.get("fields", {}).values()):
            if "boundary" in part:
                part["boundary"] = {
                    side: data if isinstance(data, str) else dict(data) for side, data in part["boundary"]
                }
        return table

    def __call__(self, **values: float) -> Any:
        """Return the problem for the given parameter values.

        Raises ParameterError for a missing or unknown parameter, and ProblemError for contradictory formulas.
        """
        return self.until(self.final_time, **values)

    # positional, because a formula may have a parameter named final_time
    def until(self, final_time: float | None, /, **values: float) -> Any:
        """Return the problem for parameter values, with checks of its data up to `final_time`."""
        raise NotImplementedError

    def read_values(self, names: Set[str], values: Mapping[str, Any]) -> dict[str, float]:
        """Return the values of the parameters `names`.  Raises ParameterError for a missing, unknown or wrong value."""
        where, known = f"problem {self.name}" if self.name else "problem", ", ".join(sorted(names)) or "none"
        for name in sorted(names ^ values.keys(), key=lambda name: (name in names, name)):
            wanted = "given a number" if name in names else f"one of the problem's parameters ({known})"
            raise ParameterError(name, wanted, values.get(name), where=where)
        for name, value in values.items():
            if isinstance(value, (str, bytes)) or not np.isfinite(value):
                raise ParameterError(name, "a finite number", value)
        return {name: float(value) for name, value in values.items()}


def read_boundary(raw: Any) -> Boundary:
    """Return the boundary table in its normal form.  Raises ParameterError for an unknown entry."""
    if isinstance(raw, (tuple, list)):  # a result of this function, perhaps read from JSON
        return tuple((name, data if isinstance(data, str) else tuple(map(tuple, data))) for name, data in raw)
    if not isinstance(raw, Mapping):
        raise ParameterError("boundary", "a table of faces and periodic directions", raw)
    known: list[tuple[str, FaceData]] = []
    for name, data in sorted((str(name), data) for name, data in raw.items()):
        if name in DIRECTIONS:
            if data != PERIODIC:
                wanted = f'"periodic", or a flux on a face, {name}0 or {name}1'
                raise ParameterError(f"boundary.{name}", wanted, data)
        elif not isinstance(data, Mapping) or tuple(sorted(data)) not in _KINDS:
            wanted = "{ flux = formula } or { transfer = formula, outside = formula }"
            raise ParameterError(f"boundary.{name}", wanted, data)
        else:
            for key in (key for key, formula in data.items() if not isinstance(formula, str)):
                raise ParameterError(f"boundary.{name}.{key}", "a formula", data[key])
            data = tuple(sorted(data.items()))
        known.append((name, data))
    return tuple(known)


def read_domain(dimension: int, raw: Any, boundary: Boundary) -> Domain:
    """Return the domain that a table describes, with the periodic directions and natural faces of `boundary`."""
    periodic = tuple(name for name, data in boundary if data == PERIODIC)
    natural = tuple(name for name, data in boundary if data != PERIODIC)
    domain = _read_shape(dimension, raw, natural)
    # The unit cube becomes a box only if it must be one, so that older studies keep their run keys.
    if not boundary:
        return domain
    if type(domain) is UnitCube:
        domain = Box(dimension, (0.0,) * dimension, (1.0,) * dimension)
    if isinstance(domain, (Disk, Polygon)) and not periodic:
        return replace(domain, natural_faces=natural)
    if not isinstance(domain, Box):
        raise ParameterError("boundary", "data of faces of a box, a disk or a polygon", dict(boundary))
    return replace(domain, periodic=periodic, natural_faces=natural)  # `replace` keeps a derived type and its fields


def _read_shape(dimension: int, raw: Any, natural: tuple[str, ...]) -> Domain:
    if raw is None:
        return UnitCube(dimension)
    if isinstance(raw, Domain):
        return raw
    if isinstance(raw, Mapping) and "kind" in raw:
        return make_domain(raw)
    names = frozenset(raw) if isinstance(raw, Mapping) else frozenset()
    if names == {"lower", "upper"}:
        return Box(dimension, _read_numbers(raw["lower"], "domain.lower"), _read_numbers(raw["upper"], "domain.upper"))
    if names not in ({"disk"}, {"polygon"}, {"mesh"}):
        raise ParameterError("domain", _WANTED, raw)
    if dimension != 2:
        raise ParameterError("domain", f"a box in {dimension}-D", raw)
    if "disk" not in names:
        return Polygon.from_vertices(raw["polygon"], natural) if "polygon" in names else Mesh.read(raw["mesh"])
    disk = raw["disk"]
    if not isinstance(disk, Mapping) or set(disk) != {"centre", "radius"}:
        raise ParameterError("domain.disk", "{ centre = [x, y], radius = r }", disk)
    (radius,) = _read_numbers([disk["radius"]], "domain.disk.radius")
    return Disk(2, _read_numbers(disk["centre"], "domain.disk.centre"), radius)


def _read_numbers(raw: Any, name: str) -> tuple[float, ...]:
    try:
        if any(isinstance(entry, (bool, str)) for entry in raw):
            raise TypeError
        return tuple(float(entry) for entry in raw)
    except (TypeError, ValueError):
        raise ParameterError(name, "a list of numbers", raw) from None

"""The domain of a problem and what is given on its boundary, as a study file states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evogt_study.errors import FormulaError, ParameterError, shortened
from evogt_study.pde.domains import Box, Disk, Domain, Mesh, Polygon, UnitCube, domain_from
from evogt_study.pde.domains.box import DIRECTIONS

FaceData = str | tuple[tuple[str, str], ...]
Boundary = tuple[tuple[str, FaceData], ...]
"""Pairs of a direction and "periodic", or of a face and its formulas by name, in order."""

PERIODIC = "periodic"
_KINDS = ("flux",), ("outside", "transfer")
_SHAPES = {frozenset({"lower", "upper"}): "box", frozenset({"disk"}): "disk", frozenset({"polygon"}): "polygon",
           frozenset({"mesh"}): "mesh"}  # fmt: skip
_WANTED = (
    "{ lower = [..], upper = [..] }, or in 2-D { disk = { centre = [..], radius = r } }, { polygon = [[x, y], ..] } or "
    '{ mesh = "file" }'
)


def boundary_of(raw: Any) -> Boundary:
    """The boundary table in its one form.  Raises ParameterError for what is neither periodic nor a face's data."""
    if isinstance(raw, (tuple, list)):  # what this function gave, perhaps from JSON
        return tuple((name, data if isinstance(data, str) else tuple(map(tuple, data))) for name, data in raw)
    if not isinstance(raw, Mapping):
        raise ParameterError("boundary", "a table of faces and periodic directions", raw)
    return tuple((str(name), _face_data(str(name), raw[name])) for name in sorted(raw))


def _face_data(name: str, raw: Any) -> FaceData:
    if name in DIRECTIONS:
        if raw != PERIODIC:
            raise ParameterError(f"boundary.{name}", f'"periodic"; a flux is that of a face, {name}0 or {name}1', raw)
        return PERIODIC
    if not isinstance(raw, Mapping) or tuple(sorted(raw)) not in _KINDS:
        wanted = "{ flux = formula } or { transfer = formula, outside = formula }"
        raise ParameterError(f"boundary.{name}", wanted, raw)
    for key, formula in raw.items():
        if not isinstance(formula, str):
            raise ParameterError(f"boundary.{name}.{key}", "a formula", formula)
    return tuple((str(key), str(raw[key])) for key in sorted(raw))


def domain_of(dimension: int, raw: Any, boundary: Boundary) -> Domain:
    """The domain that a table means, with the periodic directions and natural faces of `boundary`.

    Raises ParameterError or ProblemError where it cannot be one.
    """
    domain = _shape(dimension, raw)
    # the unit cube stays one unless it has to be a box: studies of before there were boxes keep their keys
    if not boundary:
        return domain
    if isinstance(domain, UnitCube):
        domain = Box(dimension, (0.0,) * dimension, (1.0,) * dimension)
    if not isinstance(domain, Box):
        raise ParameterError("boundary", "left out on a domain that is not a box", dict(boundary))
    periodic = tuple(name for name, data in boundary if data == PERIODIC)
    return Box(dimension, domain.lower, domain.upper, periodic, tuple(n for n, data in boundary if data != PERIODIC))


def _shape(dimension: int, raw: Any) -> Domain:
    if raw is None:
        return UnitCube(dimension)
    if isinstance(raw, Domain):
        return raw
    if isinstance(raw, Mapping) and "kind" in raw:
        return domain_from(raw)
    kind = _SHAPES.get(frozenset(raw)) if isinstance(raw, Mapping) else None
    if kind is None:
        raise ParameterError("domain", _WANTED, raw)
    if kind == "box":
        return Box(dimension, _numbers(raw["lower"], "domain.lower"), _numbers(raw["upper"], "domain.upper"))
    if dimension != 2:
        raise ParameterError("domain", f"a box in {dimension}-D", raw)
    if kind == "disk":
        return _disk(raw["disk"])
    return Polygon.of(raw["polygon"]) if kind == "polygon" else Mesh.read(raw["mesh"])


def _disk(raw: Any) -> Disk:
    if not isinstance(raw, Mapping) or set(raw) != {"centre", "radius"}:
        raise ParameterError("domain.disk", "{ centre = [x, y], radius = r }", raw)
    return Disk(2, _numbers(raw["centre"], "domain.disk.centre"), *_numbers([raw["radius"]], "domain.disk.radius"))


def _numbers(raw: Any, name: str) -> tuple[float, ...]:
    try:
        if any(isinstance(entry, (bool, str)) for entry in raw):
            raise TypeError
        return tuple(float(entry) for entry in raw)
    except (TypeError, ValueError):
        raise ParameterError(name, "a list of numbers", raw) from None


def texts_of(raw: Any, key: str, dimension: int) -> tuple[str, ...]:
    """A list of one formula for each direction.  Raises FormulaError."""
    if not isinstance(raw, (list, tuple)) or len(raw) != dimension or not all(isinstance(part, str) for part in raw):
        raise FormulaError(f"`{key}` must be a list of {dimension} formulas in {dimension}-D, got {shortened(raw)}")
    return tuple(raw)

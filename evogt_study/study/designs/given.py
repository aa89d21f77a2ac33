"""Designs as they are given in Python: `evs.together`, `evs.sample`, `evs.table`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from evogt_study.errors import InputError, shortened

SECTIONS = ("together", "sample", "table")


@dataclass(frozen=True)
class Design:
    """A design, by the `section` of a study file that states it, and that section's keys."""

    section: str
    table: Mapping[str, Any]


def together(name: str, /, **parameters: Any) -> Design:
    """Parameters that change together along the dimension `name`: a list of values for each, all of one length.

    >>> together("level", N=[20, 40], quadrature=[100, 200]).section
    'together'
    """
    return Design("together", {"name": name, **parameters})


def sample(name: str, /, rule: str, count: int, **more: Any) -> Design:
    """Points drawn in a box, along the dimension `name`.

    rule: sobol, halton, latin_hypercube, random, saltelli or morris.  count: points, base points of saltelli,
    trajectories of morris.  more: `sample_seed`, `start`, `extend`, `second_order`, `levels`, and the distribution of
    each parameter as a study file has it.

    >>> design = sample("point", "sobol", 512, gamma={"from": 2, "to": 30, "scale": "log"}, k={"choice": [1, 2]})
    """
    return Design("sample", {"name": name, "rule": rule, "count": count, **more})


def table(name: str, /, points: Any) -> Design:
    """Listed points along the dimension `name`: mappings of parameters to values, a data frame, or a CSV file.

    >>> design = table("case", [{"N": 20, "tau": 1e-8}, {"N": 40, "tau": 1e-12}])
    """
    if isinstance(points, (str, PathLike)):
        return Design("table", {"name": name, "file": fspath(points)})
    if hasattr(points, "to_dict"):  # pandas need not be installed
        points = points.to_dict(orient="records")
    if not isinstance(points, Iterable) or isinstance(points, Mapping):
        raise InputError(f"`points` must be a list of mappings, a data frame or a file, got {shortened(points)}")
    return Design("table", {"name": name, "rows": list(points)})


def sections(designs: Design | Iterable[Design]) -> dict[str, list[Mapping[str, Any]]]:
    """The designs by their sections.  Raises InputError for what is none."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for design in (designs,) if isinstance(designs, Design) or not isinstance(designs, Iterable) else designs:
        if not isinstance(design, Design):
            told = "`designs` must be made by evs.together, evs.sample or evs.table"
            raise InputError(f"{told}, got {shortened(design)}")
        found.setdefault(design.section, []).append(design.table)
    return found

"""Define designs: dimensions along which several parameters change together.

`zip_axes`, `sample` and `table` define a design in Python.  `read_designs` reads all designs of a study.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import Any

from evogt_study.errors import InputError, shortened
from evogt_study.schema.values import text_label
from evogt_study.schema.variables import TAKEN_REASON, objection
from evogt_study.study.case_space import Axis, Match
from evogt_study.study.listed import read_listed, read_zip, rows_of
from evogt_study.study.model import StudyModel
from evogt_study.study.parameter_values import Declared, SourceLocation
from evogt_study.study.sampled import read_sample, warn_of_count

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
SECTIONS = ("zip", "sample", "table")


@dataclass(frozen=True)
class StatedDesign:
    """A design, by the `section` of a study file that states it, and that section's keys."""

    section: str
    table: Mapping[str, Any]


def zip_axes(name: str, /, **parameters: Any) -> StatedDesign:
    """Parameters that change together along the dimension `name`: a list of values for each, all of one length.

    >>> zip_axes("level", N=[20, 40], quadrature=[100, 200]).section
    'zip'
    """
    return StatedDesign("zip", {"name": name, **parameters})


def sample(name: str, /, rule: str, count: int, **more: Any) -> StatedDesign:
    """Points drawn in a box, along the dimension `name`.

    rule: sobol, halton, latin_hypercube, random, saltelli or morris.  count: points, base points of saltelli,
    trajectories of morris.  more: `sample_seed`, `start`, `extend`, `second_order`, `levels`, and the distribution of
    each parameter as a study file has it.

    >>> design = sample("point", "sobol", 512, gamma={"from": 2, "to": 30, "scale": "log"}, k={"choice": [1, 2]})
    """
    return StatedDesign("sample", {"name": name, "rule": rule, "count": count, **more})


def table(name: str, /, points: Any) -> StatedDesign:
    """Listed points along the dimension `name`: mappings of parameters to values, a data frame, or a CSV file.

    >>> design = table("case", [{"N": 20, "tau": 1e-8}, {"N": 40, "tau": 1e-12}])
    """
    if isinstance(points, (str, PathLike)):
        return StatedDesign("table", {"name": name, "file": fspath(points)})
    if hasattr(points, "to_dict"):  # pandas need not be installed
        points = points.to_dict(orient="records")
    if not isinstance(points, Iterable) or isinstance(points, Mapping):
        raise InputError(f"`points` must be a list of mappings, a data frame or a file, got {shortened(points)}")
    return StatedDesign("table", {"name": name, "rows": list(points)})


def sections(designs: StatedDesign | Iterable[StatedDesign]) -> dict[str, list[Mapping[str, Any]]]:
    """The designs by their sections.  Raises InputError for anything else."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for design in (designs,) if isinstance(designs, StatedDesign) or not isinstance(designs, Iterable) else designs:
        if not isinstance(design, StatedDesign):
            message = "`designs` must be made by evs.zip_axes, evs.sample or evs.table"
            raise InputError(f"{message}, got {shortened(design)}")
        found.setdefault(design.section, []).append(design.table)
    return found


def read_designs(table: StudyModel, declared: Declared, *, warn: bool) -> tuple[Axis, ...]:
    """The index axes of a study: first ``[[zip]]``, then ``[[sample]]``, then ``[[table]]``.

    warn: give a `DoubtWarning` for a count that leaves a sequence unbalanced.  Raises StudyError.
    """
    owners = {name: f"axes.{name}" for name in table.axes} | {name: f"constants.{name}" for name in table.constants}
    readers: dict[str, Callable[[Any, Declared, SourceLocation], Axis]] = {
        "zip": read_zip, "sample": read_sample, "table": partial(read_listed, table.table_files)
    }  # fmt: skip
    every = []
    for section, read in readers.items():
        for number, design in enumerate(getattr(table, section)):
            place = declared.place(section).at(number)
            axis = read(design, declared, place)
            _check_name(axis.name, declared, place.at("name"))
            for name in (axis.name, *axis.parameters):
                if name in owners:
                    raise place.at(name).error(f"`{name}` must be given once, got it in {owners[name]} too")
                owners[name] = f"{place.where}.{name}"
            every.append(axis)
    for number, sample in enumerate(table.sample if warn else ()):
        warn_of_count(sample, declared.place("sample").at(number))
    return tuple(every)


def stated_values(table: StudyModel, name: str, file: str) -> Iterator[Any]:
    """The values that designs list for a parameter, as they are written.  Raises StudyError for a wrong file."""
    for zipped in table.zip:
        raw = zipped.parameters.get(name)
        yield from raw if isinstance(raw, list) else ()
    for sample in table.sample:
        raw = sample.parameters.get(name)
        choice = raw.get("choice") if isinstance(raw, dict) else None
        yield from choice if isinstance(choice, list) else ()
    for number, listed in enumerate(table.table):
        yield from (row[name] for row in listed.rows or () if name in row)
        if listed.file in table.table_files:
            place = SourceLocation(file, f"table[{number}]")
            yield from rows_of(table.table_files[listed.file], listed.file, place).get(name, ())


def _check_name(name: str, declared: Declared, place: SourceLocation) -> None:
    """Raise StudyError if the result cannot have a dimension of this name."""
    if not NAME.fullmatch(name):
        raise place.mistake("a word of letters, digits and _", name)
    if name in declared.method.parameters:
        raise place.error(f"`{name}` must be a new name for the dimension, got the name of a parameter")
    reason = TAKEN_REASON if name in declared.method.variables else objection(name)
    if reason is not None:
        raise place.error(f"the dimension `{name}` must have another name, since {reason}")


def check_occurs(match: Match, axes: Sequence[Axis], place: SourceLocation) -> None:
    """Raise StudyError if no point of an index axis has the values that `match` admits for its parameters."""
    for axis in axes:
        names = [name for name in match if axis.points is not None and name in axis.points.columns]
        columns = zip(*(axis.parameters[name] for name in names), strict=True)
        # one parameter alone is looked at when its labels are read
        if len(names) > 1 and not any(
            all(text_label(value) in match[name] for name, value in zip(names, point, strict=True)) for point in columns
        ):
            message = " and ".join(f"{name} = {', '.join(sorted(match[name]))}" for name in names)
            raise place.error(f"the rule matches no case: no {axis.name} has {message}")

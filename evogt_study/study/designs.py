"""Define designs: dimensions along which several parameters change together.

A rule draws the points of a sample in the unit cube.  The quantile functions of distributions map points to values.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy  # imports its parts when they are first used: `stats` takes half a second, which only samples need

from evogt_study.errors import AccuracyWarning, InputError, StudyError, shorten, warn
from evogt_study.schema.values import FINGERPRINT, OBJECT, TYPE, from_json, is_number, name_object
from evogt_study.storage.files import read_text
from evogt_study.study.case_space import MAX_CASES, Axis
from evogt_study.study.model import PointsTable, SampleTable, SeedRange, StudyModel, ZipTable

if TYPE_CHECKING:
    from evogt_study.study.reading import SourceLocation, StudyReader

# exp and log of different processors differ in the last bits. With 12 digits, a study has the same runs everywhere
EXPONENTIAL_DIGITS = 12  # significant digits of values that are computed by exponentials, logarithms or quantiles
LINEAR_DIGITS = 15  # significant digits of values in equal steps, so that 0.1 + 2 * 0.1 is 0.3
STEP_TOLERANCE = 1e-9  # rounding tolerance as a fraction of a step, so that a range reaches `to`: 10 * 0.1 is 1
MIN_DIFFERENCE = 1e-12  # relative difference of two floats of an axis below which a warning names both
TABLE_FILES = "table_files"
DELIMITERS = (";", "\t", ",")  # possible separators of cells; a table has the first one in its header
_BOOLEANS = {"true": True, "false": False}
_CELL_TYPES = (int, float, lambda cell: _BOOLEANS[cell.strip().lower()])
"""Types of a column, narrowest first.  If no type fits all cells, the cells are strings."""


def round_digits(value: float, digits: int = EXPONENTIAL_DIGITS) -> float:
    """Round a value of a range or a sample to significant digits."""
    return float(f"{value:.{digits}g}") + 0.0  # no -0.0, which equals 0.0 as a coordinate


def list_values(raw: Any) -> list[Any] | None:
    """Return the values of a list, an array or a table of objects, or None for anything else."""
    if not isinstance(raw, dict):
        return raw if isinstance(raw, list) else None
    if TYPE in raw:
        try:
            return list(from_json(raw))
        except (ValueError, TypeError):
            return None
    if raw and all(isinstance(each, dict) and each.get(TYPE) == OBJECT for each in raw.values()):
        return [name_object(label, str(each.get(FINGERPRINT))) for label, each in raw.items()]
    return None


def _read_zip(table: ZipTable, place: SourceLocation) -> dict[str, list[Any]]:
    """Return the values of each parameter of a ``[[zip]]`` section.  Raises StudyError."""
    lists = {name: read_list(raw, place.at(name)) for name, raw in table.parameters.items()}
    if len(lists) < 2:
        message = f"`{table.name}` must have at least two parameters, got {', '.join(lists) or 'none'}"
        raise place.error(message, "one belongs in [axes]")
    first, length = next((name, len(values)) for name, values in lists.items())
    for name, values in lists.items():
        if len(values) != length:
            message = f"`{name}` must have as many values as `{first}`, {length}"
            raise place.at(name).error(f"{message}, got {len(values)}: {shorten(values)}")
    return lists


def read_list(raw: Any, place: SourceLocation) -> list[Any]:
    """Return the values of a list, a table of objects or a range.  Raises StudyError."""
    values = list_values(raw)
    if values is None and isinstance(raw, dict):
        if "from" in raw or "to" in raw:
            return read_range(raw, place)
        try:
            return SeedRange.model_validate(raw).values
        except ValueError:  # pydantic's ValidationError is one
            seeds = f"{{ start = integer >= 0, count = integer >= 1 and at most {MAX_CASES:,} }}"
            wanted = f"a list, or {seeds}, {{ from, to, count }} or {{ from, to, step }}"
            raise place.mistake(wanted, raw, name=place.where) from None
    if not values:
        raise place.mistake("a list of values", raw, "give a single value in [constants]")
    return values


def _read_points(files: Mapping[str, Sequence[str]], table: PointsTable, place: SourceLocation) -> dict[str, list[Any]]:
    """Return the values of each parameter of a ``[[table]]`` section, with rows or a file.  Raises StudyError."""
    if (table.rows is None) == (table.file is None):
        got = "neither" if table.rows is None else "both"
        raise place.error(f"`{table.name}` must have `rows` or `file`, got {got}")
    if table.file is not None:
        if table.file not in files:
            raise place.at("file").mistake("a file whose content is in [table_files]", table.file)
        return parse_table(files[table.file], table.file, place)
    rows, place_of_rows = table.rows or [], place.at("rows")
    if not rows or not rows[0]:
        raise place_of_rows.mistake("a list of at least one table of parameters", rows)
    names = dict.fromkeys(name for row in rows for name in row)
    for number, row in enumerate(rows):
        if missing := [name for name in names if name not in row]:
            raise place_of_rows.at(number).error(f"`{missing[0]}` must be given in every row, got none")
    return {name: [row[name] for row in rows] for name in names}


def read_range(raw: dict[str, Any], place: SourceLocation) -> list[int | float]:
    """Return the values of a range, as integers if the bounds and all values are integers.  Raises StudyError."""
    required, optional = (("step",), ()) if "step" in raw else (("count",), ("scale",))
    place.check_keys(raw, ("from", "to", *required), optional)
    low, high, is_log = place.interval(raw)
    is_whole = isinstance(low, int) and isinstance(high, int)
    if "step" in raw:
        step = place.number(raw, "step")
        if step <= 0:
            raise place.at("step").mistake("above 0", step)
        steps = (high - low) / step + STEP_TOLERANCE
        if steps >= MAX_CASES:
            raise place.at("step").mistake(f"at least {(high - low) / MAX_CASES:g}, for {MAX_CASES:,} values", step)
        is_whole = is_whole and isinstance(step, int)
        inner = [low + number * step for number in range(1, int(steps) + 1)]
        values = [low, *(inner if is_whole else [round_digits(value, LINEAR_DIGITS) for value in inner])]
    else:
        count = raw["count"]
        if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= MAX_CASES:
            wanted = f"an integer from 2 to {MAX_CASES:,}"
            raise place.at("count").mistake(wanted, count, "give a single value in [constants]")
        start, width = (math.log(low), math.log(high) - math.log(low)) if is_log else (low, high - low)
        inner = [start + number / (count - 1) * width for number in range(1, count - 1)]
        inner = [round_digits(math.exp(value)) if is_log else round_digits(value, LINEAR_DIGITS) for value in inner]
        values = [low, *inner, high]  # the ends as they are written: computed they would be rounded
    near = [round(value) for value in values]
    if is_whole and all(abs(value - integer) <= STEP_TOLERANCE for value, integer in zip(values, near, strict=True)):
        return list(near)
    return [float(value) for value in values]


def read_files(model: StudyModel, file: str) -> dict[str, list[str]]:
    """Read the files that tables name and the study does not contain, and return their lines by file name."""
    names = [each.file for each in model.table if each.file is not None and each.file not in model.table_files]
    try:
        return {name: read_text(Path(file).parent / name, "the table", StudyError).splitlines() for name in names}
    except StudyError as error:
        raise StudyError(f"{error} ({file}, table.file)") from None


def parse_table(lines: Sequence[str], name: str, place: SourceLocation) -> dict[str, list[Any]]:
    """Return the columns of a CSV file by name, with numbers if all cells are numbers.  Raises StudyError."""
    place = place.at("file")
    first = next((line for line in lines if line.strip()), "")
    # strict: a quote that is not closed would swallow the rows behind it
    reader = csv.reader(lines, delimiter=next((each for each in DELIMITERS if each in first), ","), strict=True)
    try:
        rows = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise place.error(f"{name} must be valid CSV, got {error}") from None
    if len(rows) < 2:
        raise place.error(f"{name} must have a header and at least one row, got {len(lines)} lines")
    names = [cell.strip() for cell in rows.pop(0)[1]]
    if "" in names or len(set(names)) < len(names):
        raise place.error(f"{name} must have a header with different names, got {shorten(names)}")
    for line, cells in rows:
        if len(cells) != len(names) or not all(cell.strip() for cell in cells):
            wanted = f"{name} must have {len(names)} values in each row"
            raise place.error(f"{wanted}, got {shorten(cells)} in line {line}")
    columns = zip(*(cells for _, cells in rows), strict=True)
    found: dict[str, list[Any]] = {}
    for column, entries in zip(names, columns, strict=True):
        for kind in (*_CELL_TYPES, str.strip):
            with suppress(ValueError, KeyError):
                found[column] = [kind(entry) for entry in entries]
                break
    return found


# --- samples --------------------------------------------------------------------------------------------------------

Array = npt.NDArray[np.float64]
Quantiles = Callable[[Array], list[Any]]  # function that maps numbers in the unit interval to values
_DISTRIBUTIONS = ("integers", "normal", "choice")  # keys of distributions other than uniform and log-uniform
RULE_OPTIONS = ("second_order", "levels")  # keys that only some rules have
SAMPLE_STREAM = int.from_bytes(b"sample", "big")  # spawn key of the streams of samples
_MIN_DISTANCE = 2.0**-32  # least distance from 0 and 1 for unbounded quantiles, since a Sobol number may be 0
MAX_DEVIATIONS = 7.0  # largest normal value, in standard deviations: the quantile of `_MIN_DISTANCE` is -6.2
MAX_INTEGERS = 2**53  # largest number of different integers, since numbers in the unit interval have 53 bits
DISTRIBUTION_FORMS = (
    '{ from, to }, { from, to, scale = "log" }, { integers = { from, to } }, { normal = { mean, std } } '
    "or { choice = [...] }"
)


def read_sample(table: SampleTable, declared: StudyReader, place: SourceLocation) -> Axis:
    """Read a ``[[sample]]`` section as an axis.  Raises StudyError."""
    rule, parameters = RULES[table.rule], table.parameters
    for name in RULE_OPTIONS:
        if name in table.model_fields_set and name not in rule.options:
            raise place.at(name).error(f"`{name}` must be left out with the rule {table.rule}")
    if table.start and not rule.nested:
        raise place.at("start").mistake(f"0 with the rule {table.rule}, whose points form no sequence", table.start)
    if not parameters:
        remedy = "add a parameter such as gamma = { ... }"
        raise place.error(f"`{table.name}` must have at least one parameter, got none", remedy)
    options = {name: getattr(table, name) for name in rule.options}
    each = rule.per_count(len(parameters), **options)
    count = table.count * each
    if (table.start + table.count) * each > MAX_CASES:
        start = f", `start` = {table.start:,} included" if table.start else ""
        raise place.at("count").mistake(f"at most {MAX_CASES // each:,}{start}", table.count)
    quantiles = {name: read_distribution(raw, place.at(name), rule.closed) for name, raw in parameters.items()}
    # drawn from the first point on and cut, so that the points after `start` agree with the whole sample
    points = rule.draw(len(parameters), table.start + table.count, table.sample_seed, **options)[-count:]
    lists = {name: quantile(points[:, number]) for number, (name, quantile) in enumerate(quantiles.items())}
    columns = {name: declared.read_column(name, values, place.at(name)) for name, values in lists.items()}
    first = table.start * each
    names = ("rule", "count", "sample_seed", "start")[: 4 if first else 3]
    about = {"kind": "sample", **{name: getattr(table, name) for name in names}}
    description = json.dumps({**about, **options, "parameters": parameters}, default=str)
    return Axis(table.name, tuple(range(first, first + count)), columns, first, description)


def warn_of_near_values(axis: Axis, place: SourceLocation) -> None:
    """Give an `AccuracyWarning` for two floats of an axis that differ only by rounding."""
    has_floats = any(issubclass(kind, (float, np.floating)) for kind in set(map(type, axis.values)))
    if not has_floats or not all(map(is_number, axis.values)):
        return
    for one, other in itertools.pairwise(sorted(map(float, axis.values))):  # type: ignore[arg-type]  # numbers
        if other - one < MIN_DIFFERENCE * max(abs(one), abs(other)):
            warn(
                f"`{axis.name}` has two values that differ by less than {MIN_DIFFERENCE:g} of their size, {one!r} and "
                f"{other!r} ({place}). If both are the same value, give it once",
                AccuracyWarning,
            )


@dataclass(frozen=True)
class Rule:
    """A sampling rule, whose `draw` returns `per_count` points per count for (dimension, count, seed, **options).

    If `nested`, a larger sample begins with a smaller one.  If `balanced`, the count should be a power of two.  If
    `closed`, the points may contain 0 and 1.
    """

    draw: Callable[..., Array]
    nested: bool = True
    balanced: bool = False
    closed: bool = False
    options: tuple[str, ...] = ()
    per_count: Callable[..., int] = lambda dimension: 1


def make_sample_generator(seed: int) -> np.random.Generator:
    """Return the random generator of a sample, which differs from ``default_rng(seed)`` in runs."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(SAMPLE_STREAM,)))


def _draw_sobol(dimension: int, count: int, seed: int) -> Array:
    """Draw points (count, dimension) of a Sobol sequence with the scrambling of SciPy."""
    engine = scipy.stats.qmc.Sobol(dimension, rng=make_sample_generator(seed))
    return np.asarray(engine.random_base2(max(count - 1, 1).bit_length())[:count])  # SciPy warns of other numbers


def _draw_latin_hypercube(dimension: int, count: int, seed: int) -> Array:
    """Draw a Latin hypercube with an even `count` so that its first half is one too (Sallaberry et al. 2008)."""
    rng = make_sample_generator(seed)
    size = count // (count & -count)
    points: Array = scipy.stats.qmc.LatinHypercube(dimension, rng=rng).random(size)
    while size < count:  # each step halves the intervals and fills the empty ones in random order
        # a point may be 1: the sum of an interval and a number below 1 is rounded
        used = np.floor(points * (2 * size)).astype(int).clip(0, 2 * size - 1)
        free = np.stack([np.setdiff1d(np.arange(2 * size), along) for along in used.T])
        added = (rng.permuted(free, axis=1).T + rng.random((size, dimension))) / (2 * size)
        points, size = np.concatenate([points, added]), 2 * size
    return points


def _draw_saltelli(dimension: int, count: int, seed: int, second_order: bool = False) -> Array:
    """Draw blocks of Saltelli (2002) in the order of SALib from `count` Sobol points (a, b) in twice the dimension."""
    base = _draw_sobol(2 * dimension, count, seed)
    a, b = base[:, None, :dimension], base[:, None, dimension:]
    one = np.eye(dimension, dtype=bool)
    blocks = [a, np.where(one, b, a), *([np.where(one, a, b)] if second_order else []), b]
    return np.concatenate(blocks, axis=1).reshape(-1, dimension)


def _draw_morris(dimension: int, count: int, seed: int, levels: int = 4) -> Array:
    """Draw trajectories of Morris (1991), in which each coordinate moves once by p/(2(p - 1)), with p levels."""
    # trajectory by trajectory, so that a larger count begins with the trajectories of a smaller one
    drawn = make_sample_generator(seed).random((count, 3, dimension))
    order, down = np.argsort(drawn[:, 0], axis=1), drawn[:, 1] < 0.5
    lower = np.floor(drawn[:, 2] * (levels // 2))
    # argsort of an order is its inverse: the number of the step at which each coordinate moves
    upper = (np.arange(dimension + 1)[:, None] > np.argsort(order, axis=1)[:, None, :]) != down[:, None, :]
    return np.reshape((lower[:, None, :] + upper * (levels // 2)) / (levels - 1), (-1, dimension))


RULES: Mapping[str, Rule] = {
    "sobol": Rule(_draw_sobol, balanced=True),
    "halton": Rule(
        lambda dimension, count, seed: scipy.stats.qmc.Halton(dimension, rng=make_sample_generator(seed)).random(count)
    ),
    "latin_hypercube": Rule(_draw_latin_hypercube, nested=False),
    "random": Rule(lambda dimension, count, seed: make_sample_generator(seed).random((count, dimension))),
    "saltelli": Rule(
        _draw_saltelli, balanced=True, options=("second_order",),
        per_count=lambda dimension, second_order: (2 if second_order else 1) * dimension + 2,
    ),
    "morris": Rule(
        _draw_morris, closed=True, options=("levels",), per_count=lambda dimension, levels: dimension + 1
    ),
}  # fmt: skip


def read_distribution(raw: Any, place: SourceLocation, closed: bool) -> Quantiles:
    """Return the quantile function of a distribution.  A `closed` rule also draws 0 and 1.  Raises StudyError."""
    if not isinstance(raw, dict):
        raise place.mistake(DISTRIBUTION_FORMS, raw, "give a single value in [constants]")
    kind = next((name for name in _DISTRIBUTIONS if name in raw), "")
    if not kind:  # a box; the message can suggest one of the kinds
        place.check_keys(raw, ("from", "to"), ("scale", *_DISTRIBUTIONS))
        low, high, is_log = place.interval(raw)
        start, width = (math.log(low), math.log(high) - math.log(low)) if is_log else (low, high - low)
        scale = np.exp if is_log else np.positive
        return lambda unit: [round_digits(value) for value in scale(start + width * unit).tolist()]
    place.check_keys(raw, [kind])
    given, inside = raw[kind], place.at(kind)
    if kind == "choice":
        values = list_values(given)
        if not values:
            raise inside.mistake("a list of at least one value", given)
        return lambda unit: [values[number] for number in _pick_integers(unit, len(values))]
    keys = ("mean", "std") if kind == "normal" else ("from", "to")
    if not isinstance(given, dict):
        raise inside.mistake(f"{{ {', '.join(keys)} }}", given)
    inside.check_keys(given, keys)
    if kind == "integers":
        low, high, _ = inside.interval(given)
        is_small = max(abs(low), abs(high), high - low + 1) <= MAX_INTEGERS
        if not (isinstance(low, int) and isinstance(high, int) and is_small):
            raise inside.mistake(f"{{ from, to }} of integers of at most {MAX_INTEGERS:,} and closer together", given)
        first, count = low, high - low + 1
        return lambda unit: [first + number for number in _pick_integers(unit, count)]
    if closed:
        raise place.mistake("bounded, because this rule draws both ends", raw, "use { from, to }")
    mean, std = inside.number(given, "mean"), inside.number(given, "std")
    if not (std > 0 and math.isfinite(abs(float(mean)) + MAX_DEVIATIONS * float(std))):
        raise inside.mistake("{ mean, std } with `std` above 0 and finite values", given)
    return lambda unit: [
        round_digits(value)
        for value in (mean + std * scipy.special.ndtri(np.clip(unit, _MIN_DISTANCE, 1.0 - _MIN_DISTANCE))).tolist()
    ]


def _pick_integers(unit: Array, count: int) -> list[int]:
    """Map the unit interval, which may contain 1, to integers below `count` with equal parts of the interval."""
    return list(map(int, np.floor(unit * count).clip(0, count - 1)))


# --- all designs of a study ------------------------------------------------------------------------------------------

DIMENSION_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
DESIGN_SECTIONS = ("zip", "sample", "table")


@dataclass(frozen=True)
class StatedDesign:
    """A design: the name of its `section` in a study file and the keys of the section."""

    section: str
    table: Mapping[str, Any]


def zip_axes(name: str, /, **parameters: Any) -> StatedDesign:
    """Return a dimension along which several parameters change together.

    Parameters
    ----------
    name : str
        Name of the dimension.
    **parameters
        List of values of each parameter.  All lists have the same length.

    Returns
    -------
    StatedDesign
        Value for the argument `designs` of `Study`, which checks the design.

    Examples
    --------
    >>> zip_axes("level", N=[20, 40], quadrature=[100, 200]).section
    'zip'
    """
    return StatedDesign("zip", {"name": name, **parameters})


def sample(name: str, /, rule: str, count: int, **more: Any) -> StatedDesign:
    """Return a dimension with points that a sampling rule draws.

    Parameters
    ----------
    name : str
        Name of the dimension.
    rule : str
        "sobol", "halton", "latin_hypercube", "random", "saltelli" or "morris".
    count : int
        Number of points, of base points of "saltelli", or of trajectories of "morris".
    **more
        `sample_seed`, `start`, `second_order` and `levels`, and the distribution of each parameter, in the form of a
        study file.

    Returns
    -------
    StatedDesign
        Value for the argument `designs` of `Study`, which checks the design.

    Examples
    --------
    >>> design = sample("point", "sobol", 512, gamma={"from": 2, "to": 30, "scale": "log"}, k={"choice": [1, 2]})
    """
    return StatedDesign("sample", {"name": name, "rule": rule, "count": count, **more})


def table(name: str, /, points: Any) -> StatedDesign:
    """Return a dimension with a list of points.

    Parameters
    ----------
    name : str
        Name of the dimension.
    points : iterable of mappings, DataFrame, str or Path
        Values of the parameters at each point, or a CSV file with a column for each parameter.

    Returns
    -------
    StatedDesign
        Value for the argument `designs` of `Study`, which checks the design.

    Raises
    ------
    InputError
        If `points` has another type.

    Examples
    --------
    >>> design = table("case", [{"N": 20, "tau": 1e-8}, {"N": 40, "tau": 1e-12}])
    """
    if isinstance(points, (str, PathLike)):
        return StatedDesign("table", {"name": name, "file": fspath(points)})
    if hasattr(points, "to_dict"):  # pandas need not be installed
        points = points.to_dict(orient="records")
    if not isinstance(points, Iterable) or isinstance(points, Mapping):
        raise InputError(f"`points` must be a list of mappings, a data frame or a file, got {shorten(points)}")
    return StatedDesign("table", {"name": name, "rows": list(points)})


def read_designs(table: StudyModel, declared: StudyReader, *, warns: bool) -> tuple[Axis, ...]:
    """Read all designs of a study as axes.  With `warns`, give an `AccuracyWarning` for an unbalanced sequence."""
    owners = {name: f"axes.{name}" for name in table.axes} | {name: f"constants.{name}" for name in table.constants}
    every = []
    for section in DESIGN_SECTIONS:
        for number, design in enumerate(getattr(table, section)):
            place = declared.locate(section).at(number)
            if isinstance(design, SampleTable):
                axis, end = read_sample(design, declared, place), design.start + design.count
                if warns and RULES[design.rule].balanced and end & (end - 1):
                    near = 2 ** (end.bit_length() - 1)
                    warn(
                        f"`count` of the sample {design.name} is {design.count:,}: points of a Sobol sequence are "
                        f"balanced if their number is a power of two, such as {near:,} or {2 * near:,} "
                        f"({place.at('count')})",
                        AccuracyWarning,
                    )
            else:
                is_zip = isinstance(design, ZipTable)
                lists = _read_zip(design, place) if is_zip else _read_points(table.table_files, design, place)
                columns = {each: declared.read_column(each, values, place.at(each)) for each, values in lists.items()}
                count = len(next(iter(columns.values())))
                about = {"kind": section, "count": count, "parameters": {each: {} for each in columns}}
                axis = Axis(design.name, tuple(range(count)), columns, description=json.dumps(about))
            if not DIMENSION_NAME.fullmatch(axis.name):
                raise place.at("name").mistake("made of letters, digits and _, and begin with a letter", axis.name)
            if axis.name in declared.method.parameters:
                message = f"`{axis.name}` must be a new name for the dimension, got the name of a parameter"
                raise place.at("name").error(message)
            declared.check_free(axis.name, place.at("name"), "dimension")
            for name in (axis.name, *axis.parameters):
                if name in owners:
                    raise place.at(name).error(f"`{name}` must be given once, got it in {owners[name]} too")
                owners[name] = f"{place.where}.{name}"
            every.append(axis)
    return tuple(every)

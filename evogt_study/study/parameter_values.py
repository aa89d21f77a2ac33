"""Read the values of declared parameters in a study, and compute values from formulas."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evogt_study.errors import FormulaError, ParameterError, StudyError, as_sentence, shorten, suggest
from evogt_study.methods.protocol import Method
from evogt_study.schema.parameters import read_anything
from evogt_study.schema.records import Needs
from evogt_study.schema.values import (
    FINGERPRINT,
    OBJECT,
    TYPE,
    Exact,
    Value,
    Values,
    from_json,
    is_composite,
    is_number,
    make_coordinate,
    name_object,
    text_label,
    to_plain,
)
from evogt_study.schema.variables import TAKEN_REASON, explain_reserved_name
from evogt_study.study.case_space import Formula

if TYPE_CHECKING:
    from evogt_study.study.model import ResourcesTable

# exp and log of different processors differ in the last bits of a double: in 12 digits they agree, and a study has the
# same runs everywhere
DIGITS = 12
"""Significant digits of values that are computed by exponentials, logarithms or quantiles."""
_LARGEST = sys.float_info.max
"""Largest double.  A Python integer may be larger."""
_MEMORY = re.compile(r"(.+?)\s*([MG])B")
_FORMULA = "formula"
"""Key of a constant that a formula gives."""


def round_digits(value: float, digits: int = DIGITS) -> float:
    """Round a value of a range or a sample to significant digits."""
    return float(f"{value:.{digits}g}") + 0.0  # no -0.0, which equals 0.0 as a coordinate


@dataclass(frozen=True)
class SourceLocation:
    """Location of a key in a study file, such as ``sample[0].gamma`` in FILE."""

    file: str
    where: str

    def __str__(self) -> str:
        return f"{self.file}, {self.where}"

    def at(self, key: str | int) -> SourceLocation:
        """Return the location of a key or a list entry inside this location."""
        return SourceLocation(self.file, f"{self.where}[{key}]" if isinstance(key, int) else f"{self.where}.{key}")

    def mistake(self, wanted: str, got: object, remedy: str = "", name: str = "") -> StudyError:
        """Return an error "`gamma` must be ..., got ... (FILE, sample[0].gamma). Remedy"."""
        name = name or self.where.rpartition(".")[2]
        return self.error(f"`{name}` must be {wanted}, got {shorten(got)}", remedy)

    def error(self, message: str, remedy: str = "") -> StudyError:
        """Return an error "message (FILE, sample[0].gamma). Remedy"."""
        return StudyError(f"{message} ({self}){as_sentence(remedy)}")

    def check_keys(self, table: Mapping[str, Any], required: Sequence[str], optional: Sequence[str] = ()) -> None:
        """Raise StudyError for a key that is unknown or missing."""
        for key in table:
            if key not in (*required, *optional):
                raise StudyError(f"unknown key `{key}` ({self}). {suggest(key, (*required, *optional))}")
        for key in required:
            if key not in table:
                raise StudyError(f"`{key}` must be given ({self}), got {shorten(table)}")

    def number(self, table: Mapping[str, Any], key: str) -> float | int:
        """Return the finite number of a key.  Raises StudyError for any other value."""
        value = table[key]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not -_LARGEST <= value <= _LARGEST:
            raise self.at(key).mistake("a finite number", value)
        return value

    def interval(self, table: Mapping[str, Any]) -> tuple[float | int, float | int, bool]:
        """Return `from` and `to`, and True for the scale "log".  Raises StudyError unless `from` < `to`."""
        scale = table.get("scale", "linear")
        if scale not in ("linear", "log"):
            raise self.at("scale").mistake('"linear" or "log"', scale)
        low, high = self.number(table, "from"), self.number(table, "to")
        if not low < high:
            raise self.at("from").mistake(f"below `to` = {high}", low)
        if not math.isfinite(float(high) - float(low)):
            raise self.at("from").mistake(f"closer to `to` = {high}, because the difference must be finite", low)
        if scale == "log" and low <= 0:
            raise self.at("from").mistake("above 0 on a logarithmic scale", low)
        return low, high, scale == "log"


@dataclass(frozen=True, eq=False)
class Declared:
    """The parameters that a method declares, and the study file that sets them."""

    method: Method
    file: str

    def locate(self, where: str) -> SourceLocation:
        """Return the location of a key in the file."""
        return SourceLocation(self.file, where)

    def read_value(self, name: str, raw: Any, place: SourceLocation) -> Value:
        """Convert `raw` to a value of the parameter `name`.  Raises StudyError."""
        return self.read_column(name, [raw], place, is_list=False)[0]

    def read_values(self, name: str, entries: Iterable[Any], place: SourceLocation) -> tuple[Value, ...]:
        """Convert the values of an axis, which must have different coordinate values.  Raises StudyError."""
        values = self.read_column(name, entries, place)
        seen: dict[Any, Value] = {}
        for value, label in zip(values, self.find_labels(name, values, place), strict=True):
            if label != label:
                raise place.error(f"`{name}` must be a value other than {label} on an axis")
            if label in seen:
                one, other = _format_value(seen[label]), _format_value(value)
                message = f"{other} twice" if one == other else f"{one} and {other} with one coordinate value"
                raise place.error(f"`{name}` must have different values, got {message}")
            seen[label] = value
        return values

    def find_labels(self, name: str, values: Sequence[Value], place: SourceLocation) -> list[Any]:
        """Return the coordinate values of an axis.  Raises StudyError if the result file has no type for the values."""
        try:
            return make_coordinate(values)
        except ValueError as error:
            raise place.error(f"`{name}` must have {error}") from None

    def read_column(
        self, name: str, entries: Iterable[Any], place: SourceLocation, *, is_list: bool = True
    ) -> tuple[Value, ...]:
        """Convert values that may repeat.  Messages number the values if `is_list`.  Raises StudyError."""
        self.check_name(name, place)
        parameter, found = self.method.parameters[name], []
        for number, raw in enumerate(entries):
            try:
                if type(raw) not in (int, float, str):
                    raw = raw if isinstance(raw, Exact) else from_json(raw)
                    # the values of a declared parameter have types of Python
                    raw = raw if parameter.read is read_anything else to_plain(raw)
                if parameter.resolve is not None:
                    raw = parameter.resolve(raw, Path(self.file).parent)
                found.append(parameter.value(raw))
            except (ValueError, RecursionError) as error:  # also a mapping with an unknown type, or a deep nesting
                here = place.at(number) if is_list else place
                if isinstance(error, ParameterError):
                    raise StudyError(str(error if error.where else error.at(str(here)))) from None
                wanted = parameter.wanted if isinstance(error, RecursionError) else str(error)
                raise here.mistake(wanted, raw, name=name) from None
        return tuple(found)

    # here, before anything runs: the result file would refuse the name when all runs are done
    def check_name(self, name: str, place: SourceLocation) -> None:
        """Raise StudyError unless `name` is a parameter with a name that the result file can use."""
        known = self.method.parameters
        if name not in known:
            advice = suggest(name, tuple(known))
            unused = "" if advice.startswith("Did") else "Neither the method nor a problem uses it. "
            raise StudyError(f"unknown parameter `{name}` ({place}). {unused}{advice}")
        self.check_free(name, place, "parameter")

    def check_free(self, name: str, place: SourceLocation, role: str) -> None:
        """Raise StudyError if the result file needs the name of a parameter or dimension for something else."""
        reason = TAKEN_REASON if name in self.method.variables else explain_reserved_name(name)
        if reason is not None:
            raise place.error(f"the {role} `{name}` must have another name, because {reason}")


def _format_value(value: Value) -> str:
    """Return a value for a message, as Python prints it."""
    if is_composite(value):
        return text_label(value)
    return shorten(value.make({}) if isinstance(value, Exact) else value)


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


def is_formula(raw: Any) -> bool:
    """Return True if a formula gives the constant."""
    return isinstance(raw, dict) and _FORMULA in raw


def read_formulas(constants: Mapping[str, Any], declared: Declared) -> tuple[Formula, ...]:
    """Return the formulas of constants, each after the formulas that it uses.  Raises StudyError."""
    found = {name: _read_formula(name, raw, declared) for name, raw in constants.items() if is_formula(raw)}
    try:
        order = list(TopologicalSorter({name: each.names for name, each in found.items()}).static_order())
    except CycleError as error:
        # graphlib names each before what uses it; backwards each uses the next
        names = error.args[1][::-1]
        place = declared.locate(f"constants.{names[0]}")
        raise place.error(f"formulas must not use each other, got {' -> '.join(names)}") from None
    return tuple(found[name] for name in order if name in found)


def _read_formula(name: str, raw: Mapping[str, Any], declared: Declared) -> Formula:
    place, known = declared.locate(f"constants.{name}"), declared.method.parameters
    declared.check_name(name, place)
    text = raw[_FORMULA]
    if set(raw) != {_FORMULA} or not isinstance(text, str):
        raise place.mistake('{ formula = "..." }', raw)
    place = place.at(_FORMULA)
    names, compute = compile_formula(name, text, place, declared)

    def value(values: Values) -> Value:
        number = compute(values)
        # 80.0 is no number of features: an integer, if the parameter or all operands are integers
        if not (number.is_integer() and all(isinstance(values[each], (int, np.integer)) for each in names)):
            with suppress(ParameterError):
                return known[name].value(number)
        return declared.read_value(name, int(number) if number.is_integer() else number, place)

    return Formula(name, names, value)


def compile_formula(
    name: str, text: str, place: SourceLocation, declared: Declared
) -> tuple[tuple[str, ...], Callable[[Values], float]]:
    """Return the parameters of a formula, and a function that evaluates it for a case.  Raises StudyError."""
    if text.isdecimal():
        return (), lambda values: float(text)
    from evogt_study.formulas import evaluate_formula, parse  # with SymPy, which a study without formulas does not need

    known = declared.method.parameters
    try:
        expression = parse(text)
    except FormulaError as error:
        raise place.error(str(error)) from None
    names = tuple(sorted(map(str, expression.free_symbols)))
    for each in names:
        if each not in known:
            raise StudyError(f"unknown parameter `{each}` in {text!r} ({place}). {suggest(each, tuple(known))}")

    def compute(values: Values) -> float:
        given: dict[str, Any] = {each: values.get(each) for each in names}
        for each, found in given.items():
            if not is_number(found):
                got = "no value" if found is None else shorten(found)
                raise place.error(f"`{each}` must be a number in the formula {text!r}, got {got}")
        with np.errstate(all="ignore"):
            number = float(evaluate_formula(expression, {each: float(found) for each, found in given.items()}))
        if not math.isfinite(number):
            at = ", ".join(f"{each} = {text_label(found)}" for each, found in given.items())
            message = f"`{name}` must be a finite number, got {number} from {text!r}"
            raise place.error(f"{message}{' for ' if at else ''}{at}")
        return number

    return names, compute


# The needs of a run decide where and when it is computed.  They are not part of the run key.
@dataclass(frozen=True, eq=False)
class Resources:
    """The ``[resources]`` section of a study, with a function that computes each need from the values of a case."""

    formulas: Mapping[str, Callable[[Values], float]]
    queue: str
    retry_memory: bool
    place: SourceLocation

    @staticmethod
    def of(table: ResourcesTable, declared: Declared) -> Resources:
        """Read the section.  Raises StudyError."""
        place = declared.locate("resources")
        texts = {name: str(raw) for name in ("cores", "minutes") if (raw := getattr(table, name)) is not None}
        if table.memory is not None:
            match = _MEMORY.fullmatch(table.memory.strip())
            if match is None:
                wanted = "a number or formula with the unit MB or GB, such as 4 GB"
                raise place.at("memory").mistake(wanted, table.memory)
            texts["memory"] = match[1] if match[2] == "M" else f"1000*({match[1]})"
        formulas = {name: compile_formula(name, text, place.at(name), declared)[1] for name, text in texts.items()}
        return Resources(formulas, table.queue, table.retry_memory, place)

    def compute_needs(self, values: Values) -> Needs:
        """Compute the needs of a case, rounded up.  Raises StudyError if a need is not positive."""
        found = dict[str, int]()
        for name, formula in self.formulas.items():
            if not (amount := formula(values)) > 0.0:
                at = ", ".join(f"{each} = {value}" for each, value in values.items())
                raise self.place.at(name).error(f"`{name}` must be positive for every case, got {amount} for {at}")
            found[name] = math.ceil(round(amount, 6))
        return Needs(**found, queue=self.queue)

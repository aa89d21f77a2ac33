"""Convert parameter values to canonical form, JSON, hashes and coordinates.

The conversions preserve the type and the bits of a value.  If JSON has no such type, a mapping with the key `TYPE`
represents the value, for example ``{"python": "np.float32", "value": 0.1}``.
"""

import hashlib
import importlib
import json
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from json.encoder import encode_basestring_ascii
from typing import Any, Protocol, TypeGuard
from zoneinfo import ZoneInfo

import numpy as np

from evogt_study.errors import StudyError

TYPE, VALUE = "python", "value"
"""Keys of the JSON mapping that represents a value of a type that JSON lacks."""
OBJECT, FINGERPRINT = "object", "fingerprint"
"""Type and key of the fingerprint in the JSON mapping of a named object.  `UserCode.objects` holds its bytes."""
WANTED = (
    "a number, string, boolean, date, duration, None, or a list, array or mapping of them "
    '(give any other object a name: axes={"model": {"svm": SVC()}})'
)
WANTED_ZONE = "a date without a time zone, with a fixed offset or with a zone of zoneinfo"
KEY_DIGITS = 20
"""Number of hexadecimal digits of a run key.  Among 10 million cases, two keys are equal with probability 4e-11."""
MIN_CONSECUTIVE = 6
"""Minimum length of an array of consecutive integers that JSON stores as start and count."""
MAX_CONSECUTIVE = 10_000_000
MAX_LABEL_CHARACTERS = 200
"""Maximum number of characters of a coordinate value.  A hash replaces the end of a longer text."""
MAX_TEXT_BYTES = 40_000
"""Maximum number of bytes of a string in an array of a parameter."""
MAX_TEXT_ERROR = 1e-9
"""Maximum relative difference between a float coordinate value and a text that selects this value."""


class Composite(Protocol):
    """Immutable value with parts, such as a quadrature rule.  Its `str` is a short text."""

    def content(self) -> Mapping[str, Any]:
        """Return the parts of the composite value in JSON types."""

    @property
    def label(self) -> int | str:
        """Coordinate value of the composite: a string, or an integer that determines the composite."""


def is_composite(value: object) -> TypeGuard[Composite]:
    """Return True if `value` is a `Composite`."""
    # isinstance with a protocol is slow: a fifth of the time to read a study with many quadrature rules
    return hasattr(type(value), "content") and hasattr(type(value), "label")


@dataclass(frozen=True)
class Exact:
    """JSON text and label of a value that is not a scalar of JSON, such as a list, a date, None or an object."""

    text: str
    label: str = field(compare=False)

    @property
    def stated(self) -> Any:
        """Parsed JSON text of the value."""
        return json.loads(self.text)

    def make(self, objects: Mapping[str, bytes]) -> Any:
        """Create a new copy of the value.  Raises StudyError if `objects` lacks the pickled bytes of a named object."""
        stated = self.stated
        if not isinstance(stated, dict) or stated[TYPE] != OBJECT:
            return from_json(stated)
        if stated[FINGERPRINT] not in objects:
            raise StudyError(f"only the name of the object {self.label!r} is known. Run its study in Python.")
        return pickle.loads(objects[stated[FINGERPRINT]])  # noqa: S301  # the bytes come from the client process of the user

    def __str__(self) -> str:
        return self.label


Value = bool | int | float | str | np.generic | Exact | Composite | tuple["Value", ...]
Values = Mapping[str, Value]
_PYTHON_DTYPES = frozenset(map(np.dtype, (np.bool_, np.int64, np.uint64, np.float64)))
"""NumPy dtypes with scalars that equal Python numbers bit for bit."""


def to_canonical(raw: Any) -> Value:
    """Return a scalar or composite unchanged, and any other value as `Exact`.  Invalid values raise ValueError."""
    # numbers first, because there may be millions
    if (type(raw) is int and abs(raw) < 2**63) or (type(raw) is float and raw == raw) or type(raw) is np.int64:
        return raw
    if type(raw) is Exact or is_composite(raw):
        return raw
    stated = to_json(raw)  # raises ValueError for a value that a file cannot hold
    if isinstance(raw, (bool, int, float, str, np.generic)):
        return raw
    text = json.dumps(_write_in_order(stated), sort_keys=True, separators=(",", ":"))
    label = to_string(raw)
    if len(label) > MAX_LABEL_CHARACTERS:
        label = f"{label[:MAX_LABEL_CHARACTERS]}... {hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return Exact(text, label)


def name_object(name: str, fingerprint: str) -> Exact:
    """Return the parameter value that represents a named object by its name and fingerprint."""
    return Exact(json.dumps({FINGERPRINT: fingerprint, TYPE: OBJECT}, separators=(",", ":")), name)


def _write_in_order(stated: Any) -> Any:
    """Replace mappings in JSON types by lists of pairs, so that the order of keys affects the JSON text."""
    if isinstance(stated, list):
        return [_write_in_order(entry) for entry in stated]
    if not isinstance(stated, dict):
        return stated
    if TYPE in stated:
        return {name: _write_in_order(entry) for name, entry in stated.items()}
    return {TYPE: "dict", VALUE: [[name, _write_in_order(entry)] for name, entry in stated.items()]}


# --- JSON and hashes --------------------------------------------------------------------------------------------------


def to_json(raw: Any) -> Any:
    """Convert a parameter value to JSON types.  Raises ValueError for a value that no parameter can have."""
    write = _WRITERS.get(type(raw))
    if write is None and isinstance(raw, np.generic):
        write = _write_numpy
    elif write is None and type(raw).__module__.startswith("pandas"):
        write = _write_pandas
    if write is None:
        raise ValueError(WANTED)
    return write(raw)


def from_json(stated: Any) -> Any:
    """Convert JSON types from `to_json` back to a value.  Raises ValueError for an unknown or damaged type."""
    if isinstance(stated, list):
        return [from_json(entry) for entry in stated]
    if not isinstance(stated, dict):
        return stated
    if TYPE not in stated:
        return {name: from_json(entry) for name, entry in stated.items()}
    try:
        kind = stated[TYPE]
        read = _READERS.get(kind) or (_read_numpy if kind.startswith("np.") else _READERS[kind])
        return read(stated)
    except (LookupError, TypeError, AttributeError, OverflowError, ImportError, ValueError) as error:
        raise ValueError(f"{WANTED}, but the type {stated.get(TYPE)!r} cannot be read: {error}") from None


def to_plain(raw: Any) -> Any:
    """Convert NumPy scalars and arrays to Python numbers, strings and lists, also inside lists and mappings."""
    if isinstance(raw, (np.generic, np.ndarray)):
        return raw.tolist()
    if isinstance(raw, dict):
        return {name: to_plain(entry) for name, entry in raw.items()}
    return list(map(to_plain, raw)) if isinstance(raw, (list, tuple, range)) else raw


def _to_key_content(value: Any) -> Any:
    """Convert a value, or nested mappings and tuples of values, to the JSON types of a run key."""
    if isinstance(value, np.generic) and (value.dtype.kind == "U" or value.dtype in _PYTHON_DTYPES):
        value = value.item()  # equal run keys for equal NumPy and Python scalars
    if isinstance(value, (float, np.generic)):
        return to_json(value)
    if isinstance(value, Exact):
        return value.stated
    if isinstance(value, Mapping):
        return {str(key): _to_key_content(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [_to_key_content(entry) for entry in value]
    return _to_key_content(value.content()) if is_composite(value) else value


def dump_canonical(content: Any) -> str:
    """Return the canonical JSON text of nested values, in ASCII and with sorted keys."""
    return json.dumps(_to_key_content(content), sort_keys=True, separators=(",", ":"))


def dump_json(value: Any) -> str:
    """Return the same text as `dump_canonical`, ten times faster for plain values."""
    if type(value) is int or type(value) is np.int64:
        return str(value)
    if isinstance(value, float) and math.isfinite(value):  # np.float64 is a float
        return float.__repr__(value)
    if type(value) is str:
        return encode_basestring_ascii(value)
    if type(value) is tuple:
        return f"[{','.join(map(dump_json, value))}]"
    if type(value) is Exact:
        return value.text
    return "null" if value is None else dump_canonical(value)


def join_json(texts: Mapping[str, str]) -> str:
    """Return the canonical JSON text of a mapping, given the JSON text of each value."""
    return f"{{{','.join([f'{encode_basestring_ascii(name)}:{texts[name]}' for name in sorted(texts)])}}}"


def hash_text(text: str) -> str:
    """Return the first `KEY_DIGITS` hexadecimal digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


# --- coordinates ------------------------------------------------------------------------------------------------------


def make_coordinate(values: Sequence[Value]) -> list[Any]:
    """Convert axis values to coordinate values of one type.  Raises ValueError if a conversion would change a value."""
    types: set[Any] = set(map(type, values))
    kinds = set(map(_find_type_kind, types))
    if "" in kinds:
        kinds = {_find_kind(value) for value in values}
    if kinds == {"bool"}:
        return list(map(bool, values))
    if kinds == {"composite"}:
        return [value.label for value in values]  # type: ignore[union-attr]  # all are composites
    if kinds == {"int"}:
        integers = list(map(int, values))  # type: ignore[arg-type]  # all are integers
        if min(integers) < 0 and max(integers) >= 2**63:
            raise ValueError(f"integers that all fit into int64 or uint64, got {min(integers)} and {max(integers)}")
        return integers
    if kinds in ({"float"}, {"float", "int"}):
        for value in values if "int" in kinds else ():
            if not isinstance(value, (float, np.floating)) and int(float(value)) != value:  # type: ignore[arg-type]  # a number
                raise ValueError(f"numbers that a float can hold, because one of them is a float, got {value}")
        return list(map(float, values))  # type: ignore[arg-type]  # all are numbers
    if kinds in ({"date"}, {"duration"}):
        dates: list[Any] = [to_numpy_date(value.make({}) if isinstance(value, Exact) else value) for value in values]
        for number, each in enumerate(dates):
            try:
                dates[number] = to_nanoseconds(np.asarray(each))[()]
            except ValueError as error:
                raise ValueError(f"{error}, got {each}") from None
        return dates
    return [to_string(value) for value in values]


_KINDS: Mapping[str, tuple[type, ...]] = {
    "bool": (bool, np.bool_), "duration": (np.timedelta64, timedelta), "date": (np.datetime64, date),
    "int": (int, np.integer), "float": (float, np.floating), "string": (str,),
}  # fmt: skip
"""Types of each kind of values.  Durations precede integers, because np.timedelta64 is a subclass of np.integer."""


@cache
def _find_type_kind(kind: Any) -> str:
    """Return the kind of all values of a type, or "" if the kind depends on the value."""
    return next((name for name, types in _KINDS.items() if issubclass(kind, types)), "")


def _find_kind(value: Any) -> str:
    if is_composite(value):
        return "composite" if isinstance(value.label, int) else ""
    stated = value.stated if isinstance(value, Exact) else None
    is_date = isinstance(stated, dict) and stated[TYPE] in _DATES
    kind: Any = type(from_json(stated) if is_date else value)
    return _find_type_kind(kind)


def is_number(value: Any) -> bool:
    """Return True for an integer or a float of Python or NumPy."""
    kind: Any = type(value)
    return _find_type_kind(kind) in ("int", "float")


def to_string(value: Any, inner: bool = False) -> str:
    """Format a value as a short string, such as "0.1", "240,120" or "true".  `inner` adds brackets to a list."""
    if isinstance(value, str) or type(value) in (int, Exact):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return repr(float(value)).removesuffix(".0")
    if _find_type_kind(type(value)) in ("date", "duration"):  # type: ignore[arg-type]  # as in `is_composite`
        return _format_date(value)
    if isinstance(value, np.ndarray):
        value = list(value) if value.ndim else value.item()
    if isinstance(value, (list, tuple, range)) or type(value).__name__ == "DatetimeIndex":
        entries = ",".join(to_string(entry, inner=True) for entry in value)
        return f"[{entries}]" if inner else entries
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {to_string(entry, inner=True)}' for name, entry in value.items())}}}"
    return str(value)


def to_numpy_date(raw: Any) -> np.datetime64 | np.timedelta64:
    """Convert a date or a duration to an exact NumPy scalar.  A date with a time zone becomes UTC."""
    if hasattr(raw, "to_numpy"):
        return raw.to_numpy()  # type: ignore[no-any-return]  # a Timestamp or a Timedelta of pandas
    if isinstance(raw, datetime) and raw.tzinfo is not None:
        raw = raw.astimezone(UTC).replace(tzinfo=None)
    if isinstance(raw, timedelta):
        return np.timedelta64(raw // timedelta(microseconds=1), "us")
    return raw if isinstance(raw, (np.datetime64, np.timedelta64)) else np.datetime64(raw)


def to_nanoseconds(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Convert dates or durations to nanoseconds.  Raises ValueError if the conversion would change a value."""
    kind, unit = array.dtype.kind, np.datetime_data(array.dtype)[0]
    with suppress(OverflowError):  # before NumPy 2.5, a cast out of range gives wrong values
        cast = array.astype(f"{kind}8[ns]")
        if (kind == "M" or unit not in "YM") and np.array_equal(cast.astype(array.dtype), array, equal_nan=True):
            return cast
    raise ValueError("dates from 1678 to 2261 and durations below 292 years, in nanoseconds")


def _format_date(raw: Any) -> str:
    made = to_numpy_date(raw)
    if np.isnat(made):
        return "NaT"
    if isinstance(made, np.datetime64):
        return str(np.datetime_as_string(made, unit="auto"))
    try:
        nanoseconds = int(to_nanoseconds(np.asarray(made)).astype("i8"))
    except ValueError:
        return str(made)
    return f"{Decimal(nanoseconds).scaleb(-9).normalize():f} s"


def find_value(values: Sequence[Value], text: str) -> int | None:
    """Return the index of the value that a text selects, or None.  A number must be equal up to rounding."""
    shown = make_coordinate(values)
    for i, (value, label) in enumerate(zip(values, shown, strict=True)):
        if text in (to_string(value), str(label)):
            return i
    with suppress(ValueError):
        if shown and isinstance(shown[0], (np.datetime64, np.timedelta64)):
            return shown.index(np.datetime64(text))
        number, numbers = float(text), [i for i, label in enumerate(shown) if is_number(label)]
        nearest = min(numbers, key=lambda i: abs(shown[i] - number))
        if math.isclose(shown[nearest], number, rel_tol=MAX_TEXT_ERROR if isinstance(shown[nearest], float) else 0.0):
            return nearest
    return None


# --- conversion of types that JSON lacks -----------------------------------------------------------


def _write_int(raw: int) -> int:
    if not -(2**63) <= raw < 2**64:
        raise ValueError("an integer of at most 64 bits")
    return raw


def _write_float(raw: float) -> Any:
    if not math.isnan(raw):
        return raw
    made = {TYPE: "float", VALUE: "-nan" if math.copysign(1.0, raw) < 0 else "nan"}
    if np.float64(from_json(made)).tobytes() != np.float64(raw).tobytes():
        raise ValueError("a number, not a nan with a payload")
    return made


def _write_text(raw: str) -> str:
    if "\0" in raw:
        raise ValueError("a string without the character NUL")
    if not raw.isprintable() and any("\ud800" <= character <= "\udfff" for character in raw):
        raise ValueError("a string that UTF-8 can write")
    return raw


def _check_exact(made: Any, raw: Any, wanted: str) -> Any:
    """Return the JSON types `made` if they restore the value `raw` exactly.  Raises ValueError otherwise."""
    back = from_json(made)
    is_index = hasattr(raw, "identical")  # a pandas index has an abbreviated text
    if not (raw.identical(back) and raw.freq == back.freq if is_index else repr(back) == repr(raw)):
        raise ValueError(wanted)
    return made


def _write_zone(raw: datetime) -> dict[str, Any]:
    made: dict[str, Any] = {"fold": 1} if raw.fold else {}
    if isinstance(raw.tzinfo, ZoneInfo):
        return made | {"zone": str(raw.tzinfo.key)}
    offset = raw.utcoffset()
    return made if offset is None else made | {"offset": [offset.days, offset.seconds, offset.microseconds]}


def _read_zone(stated: Mapping[str, Any]) -> Any:
    if "zone" in stated:
        return ZoneInfo(stated["zone"])
    return timezone(timedelta(*stated["offset"])) if "offset" in stated else None


def _write_numpy(raw: np.generic) -> Any:
    if isinstance(raw, (np.datetime64, np.timedelta64)):
        if np.datetime_data(raw.dtype)[0] == "generic":
            raise ValueError("a date or duration with a unit")
        return {TYPE: f"np.{raw.dtype.name}", VALUE: int(raw.astype("i8"))}
    if raw.dtype.kind not in "biufU":
        raise ValueError(WANTED)
    value = to_json(float(raw) if isinstance(raw, np.floating) else raw.item())
    made = {TYPE: f"np.{type(raw).__name__}", VALUE: value}
    return _check_exact(made, raw, "a number that a float of 64 bits holds")


def _read_numpy(stated: Mapping[str, Any]) -> Any:
    name, value = stated[TYPE].removeprefix("np."), from_json(stated[VALUE])
    if name.startswith(("datetime64", "timedelta64")):
        return np.int64(value).astype(name)[()]
    kind = getattr(np, "bool_" if name == "bool" else name)
    if not issubclass(kind, (np.bool_, np.integer, np.floating, np.str_)):
        raise TypeError("NumPy has no such number type")
    return kind(value)


def _write_array(raw: np.ndarray[Any, Any]) -> Any:
    kind, flat = raw.dtype.kind, raw.ravel()
    if not _is_dtype(raw.dtype):
        raise ValueError(WANTED)
    entries = flat.astype("i8").tolist() if kind in "Mm" else flat.tolist()
    value: dict[str, Any] = {VALUE: entries}
    if kind in "OU" or (kind == "f" and not np.isfinite(flat).all()):
        value = {VALUE: [to_json(entry) for entry in entries]}
    elif kind in "iu" and len(entries) >= MIN_CONSECUTIVE and (np.diff(flat.astype(object)) == 1).all():
        value = {"start": entries[0], "count": len(entries)}
    name = raw.dtype.name if raw.dtype.isnative and kind != "U" else raw.dtype.str
    shape = {} if raw.ndim == 1 else {"shape": list(raw.shape)}
    return {TYPE: "np.ndarray", "dtype": name, **shape, **value}


def _is_dtype(dtype: np.dtype[Any]) -> bool:
    """Return True if an array of a parameter can have this dtype."""
    return dtype.kind in "biufUMmO" and dtype.itemsize <= (MAX_TEXT_BYTES if dtype.kind == "U" else 8)


def _read_array(stated: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    dtype = np.dtype(stated["dtype"])
    if not _is_dtype(dtype):
        raise TypeError(f"an array cannot have the dtype {dtype}")
    if stated.get("count", 0) > MAX_CONSECUTIVE:
        raise ValueError(f"an array can have at most {MAX_CONSECUTIVE:,} consecutive integers")
    value = from_json(stated[VALUE]) if VALUE in stated else range(stated["start"], stated["start"] + stated["count"])
    made = np.fromiter(value, "i8" if dtype.kind in "Mm" else dtype, len(value)).astype(dtype)
    return made.reshape(stated.get("shape", [len(value)]))


def _write_pandas(raw: Any) -> Any:
    name = f"pd.{type(raw).__name__}"
    if name not in ("pd.Timestamp", "pd.Timedelta", "pd.DatetimeIndex"):
        raise ValueError(WANTED)
    made = {TYPE: name, "unit": raw.unit}
    if name == "pd.DatetimeIndex":
        naive = raw if raw.tz is None else raw.tz_convert("UTC").tz_localize(None)
        made |= {VALUE: naive.to_numpy().astype("i8").tolist(), "freq": raw.freqstr or "", "name": raw.name or ""}
        made |= _write_zone(datetime(2020, 1, 1, tzinfo=raw.tz))
    else:
        made |= {VALUE: int(raw.to_numpy().astype("i8"))} | (_write_zone(raw) if name == "pd.Timestamp" else {})
    return _check_exact(made, raw, WANTED_ZONE)


def _read_pandas(stated: Mapping[str, Any]) -> Any:
    pd = importlib.import_module("pandas")  # only here, because most workers do not need pandas
    kind, unit, zone = stated[TYPE], stated["unit"], _read_zone(stated)
    if kind == "pd.Timedelta":
        return pd.Timedelta(np.timedelta64(stated[VALUE], unit))
    if kind == "pd.Timestamp":
        made: Any = pd.Timestamp(np.datetime64(stated[VALUE], unit))
    else:
        made = pd.DatetimeIndex(np.array(stated[VALUE], "i8").astype(f"M8[{unit}]"), name=stated["name"] or None)
    if zone is not None:
        made = made.tz_localize("UTC").tz_convert(zone)
    if kind == "pd.DatetimeIndex" and stated["freq"]:
        made = pd.DatetimeIndex(made, freq=stated["freq"])
    return made


_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    bool: lambda raw: raw,
    int: _write_int,
    float: _write_float,
    str: _write_text,
    type(None): lambda raw: {TYPE: "None"},
    list: lambda raw: [to_json(entry) for entry in raw],
    tuple: lambda raw: {TYPE: "tuple", VALUE: [to_json(entry) for entry in raw]},
    range: lambda raw: {TYPE: "range", VALUE: [_write_int(raw.start), _write_int(raw.stop), _write_int(raw.step)]},
    dict: lambda raw: (
        {_write_text(name): to_json(entry) for name, entry in raw.items()}
        if all(type(name) is str for name in raw) and TYPE not in raw
        else {TYPE: "dict", VALUE: [[to_json(name), to_json(entry)] for name, entry in raw.items()]}
    ),
    date: lambda raw: {TYPE: "date", VALUE: raw.isoformat()},
    datetime: lambda raw: _check_exact(
        {TYPE: "datetime", VALUE: raw.replace(tzinfo=None).isoformat()} | _write_zone(raw), raw, WANTED_ZONE
    ),
    timedelta: lambda raw: {TYPE: "timedelta", VALUE: [raw.days, raw.seconds, raw.microseconds]},
    np.ndarray: _write_array,
}
_DATES = ("date", "datetime", "timedelta", "pd.Timestamp", "pd.Timedelta")
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "None": lambda stated: None,
    "float": lambda stated: float(stated[VALUE]),
    "tuple": lambda stated: tuple(from_json(stated[VALUE])),
    "range": lambda stated: range(*stated[VALUE]),
    "dict": lambda stated: {from_json(name): from_json(entry) for name, entry in stated[VALUE]},
    "date": lambda stated: date.fromisoformat(stated[VALUE]),
    "datetime": lambda stated: datetime.fromisoformat(stated[VALUE]).replace(
        tzinfo=_read_zone(stated), fold=stated.get("fold", 0)
    ),
    "timedelta": lambda stated: timedelta(*stated[VALUE]),
    "np.ndarray": _read_array,
    "pd.Timestamp": _read_pandas,
    "pd.Timedelta": _read_pandas,
    "pd.DatetimeIndex": _read_pandas,
}

"""Write values as JSON and read them back, to the bit and with their type.

JSON knows booleans, integers, floats, strings and lists.  Any other value is a mapping with the key `TYPE`, for example
``{"python": "np.float32", "value": 0.1}``.  The text of a study holds the same mappings, as inline tables of TOML.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from evogt_study.errors import StudyError

TYPE, VALUE = "python", "value"
"""Keys of the mapping that states the type of a value, and what the type is made from."""
OBJECT, FINGERPRINT = "object", "fingerprint"
"""Type of an object under a name, and the key of its fingerprint.  Its pickled bytes travel beside the text."""
WANTED = (
    "a number, string, boolean, date, duration, None, or a list, array or mapping of them; "
    'give any other object a name: axes={"model": {"svm": SVC()}}'
)
MIN_CONSECUTIVE = 6
"""Consecutive integers of an array are written as start and count if there are as many."""
MAX_CONSECUTIVE = 10_000_000
LONGEST_LABEL = 200
"""Characters of a label.  A longer one ends with a hash."""
LONGEST_TEXT = 40_000
"""Bytes of a string in an array, whose entries all have the same number."""
_UTC = "UTC"


def to_json(raw: Any) -> Any:
    """Return `raw` in types that JSON knows.  Raises ValueError if it is not a value of a parameter."""
    write = _WRITERS.get(type(raw))
    if write is None and isinstance(raw, np.generic):
        write = _of_numpy
    elif write is None and type(raw).__module__.startswith("pandas"):
        write = _of_pandas
    if write is None:
        raise ValueError(WANTED)
    return write(raw)


def from_json(stated: Any) -> Any:
    """Return the value that `to_json` wrote.  Raises ValueError if a mapping has an unknown type."""
    if isinstance(stated, list):
        return [from_json(entry) for entry in stated]
    if not isinstance(stated, dict):
        return stated
    if TYPE not in stated:
        return {name: from_json(entry) for name, entry in stated.items()}
    try:
        kind = stated[TYPE]
        read = _READERS.get(kind) or (_to_numpy if kind.startswith("np.") else _READERS[kind])
        return read(stated)
    except (LookupError, TypeError, AttributeError, OverflowError, ImportError, ValueError) as error:
        raise ValueError(f"{WANTED}; cannot read the type {stated.get(TYPE)!r}: {error}") from None


def to_plain(raw: Any) -> Any:
    """Return NumPy's scalars and arrays, also in lists and mappings, as Python's numbers, strings and lists."""
    if isinstance(raw, (np.generic, np.ndarray)):
        return raw.tolist()
    if isinstance(raw, dict):
        return {name: to_plain(entry) for name, entry in raw.items()}
    return list(map(to_plain, raw)) if isinstance(raw, (list, tuple, range)) else raw


@dataclass(frozen=True)
class Exact:
    """A value that JSON has no type for, or that a function could change: a list, date, None, object, ...

    text: its JSON.  label: its coordinate value as a string.
    """

    text: str
    label: str = field(compare=False)

    @property
    def stated(self) -> Any:
        """The value in types that JSON knows."""
        return json.loads(self.text)

    @property
    def is_date(self) -> bool:
        """True for a date or a duration."""
        return isinstance(self.stated, dict) and self.stated[TYPE] in _DATES

    def make(self, objects: Mapping[str, bytes]) -> Any:
        """Return a copy of the value.  objects: the pickled objects by their fingerprints.

        Raises StudyError for an object that is not among them.
        """
        stated = self.stated
        if not isinstance(stated, dict) or stated[TYPE] != OBJECT:
            return from_json(stated)
        if stated[FINGERPRINT] not in objects:
            raise StudyError(f"the object {self.label!r} is known by its name only. Run its study in Python.")
        return pickle.loads(objects[stated[FINGERPRINT]])  # noqa: S301  # pickled by the user's own process

    def __str__(self) -> str:
        return self.label


def named_object(name: str, fingerprint: str) -> Exact:
    """Return the value of an object under a name."""
    return Exact(json.dumps({FINGERPRINT: fingerprint, TYPE: OBJECT}, separators=(",", ":")), name)


def exact(raw: Any) -> Exact:
    """Return `raw` as its JSON.  Raises ValueError if it is not a value of a parameter."""
    text = json.dumps(_in_order(to_json(raw)), sort_keys=True, separators=(",", ":"))
    label = exact_label(raw)
    if len(label) > LONGEST_LABEL:
        label = f"{label[:LONGEST_LABEL]}... {hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return Exact(text, label)


def exact_label(raw: Any, inner: bool = False) -> str:
    """Return a value as a short string: "0.1", "240,120", "true", "2020-01-01".  inner: it is an entry of another."""
    if isinstance(raw, (bool, np.bool_)):
        return "true" if raw else "false"
    if isinstance(raw, (float, np.floating)):
        return repr(float(raw)).removesuffix(".0")
    if is_date(raw):
        return _date_label(raw)
    if isinstance(raw, np.ndarray):
        raw = list(raw) if raw.ndim else raw.item()
    if isinstance(raw, (list, tuple, range)) or type(raw).__name__ == "DatetimeIndex":
        entries = ",".join(exact_label(entry, inner=True) for entry in raw)
        return f"[{entries}]" if inner else entries
    if isinstance(raw, dict):
        return f"{{{', '.join(f'{name}: {exact_label(entry, inner=True)}' for name, entry in raw.items())}}}"
    return str(raw)


def is_date(raw: Any) -> bool:
    """Return True for a date or a duration, of Python, NumPy or pandas."""
    return isinstance(raw, (date, timedelta, np.datetime64, np.timedelta64))


def to_numpy_date(raw: Any) -> np.datetime64 | np.timedelta64:
    """Return a date or duration as NumPy's, exactly; a date with a time zone in UTC."""
    if hasattr(raw, "to_numpy"):
        return raw.to_numpy()  # type: ignore[no-any-return]  # a Timestamp or a Timedelta of pandas
    if isinstance(raw, datetime) and raw.tzinfo is not None:
        raw = raw.astimezone(UTC).replace(tzinfo=None)
    if isinstance(raw, timedelta):
        return np.timedelta64(raw // timedelta(microseconds=1), "us")
    return raw if isinstance(raw, (np.datetime64, np.timedelta64)) else np.datetime64(raw)


def date_coordinate(raws: Sequence[Any]) -> list[Any]:
    """Return dates or durations as NumPy's in nanoseconds.  Raises ValueError if these do not hold all of them."""
    made = [to_numpy_date(raw) for raw in raws]
    cast = [each.astype(f"{each.dtype.kind}8[ns]") for each in made]
    for one, each in zip(cast, made, strict=True):
        # there and back: a cast beyond the range wraps around
        if not (np.isnat(each) or one.astype(each.dtype) == each == one):
            raise ValueError(f"dates from 1678 to 2261 and durations below 292 years, in nanoseconds, got {each}")
    return cast


def _date_label(raw: Any) -> str:
    made = to_numpy_date(raw)
    if np.isnat(made):
        return "NaT"
    if isinstance(made, np.datetime64):
        return str(np.datetime_as_string(made, unit="auto"))
    try:
        (made,) = date_coordinate([made])
    except ValueError:
        return str(made)
    count = int(made.astype("i8"))
    seconds, rest = divmod(abs(count), 10**9)
    digits = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{'-' if count < 0 else ''}{seconds}{digits} s"


def _in_order(stated: Any) -> Any:
    """Return stated values with mappings as lists of pairs, so that the order of their keys counts."""
    if isinstance(stated, list):
        return [_in_order(entry) for entry in stated]
    if not isinstance(stated, dict):
        return stated
    if TYPE in stated:
        return {name: _in_order(entry) for name, entry in stated.items()}
    return {TYPE: "dict", VALUE: [[name, _in_order(entry)] for name, entry in stated.items()]}


# --- writers ----------------------------------------------------------------------------------------------------------


def _of_int(raw: int) -> int:
    if not -(2**63) <= raw < 2**64:
        raise ValueError("an integer of at most 64 bits")
    return raw


def _of_float(raw: float) -> Any:
    if not math.isnan(raw):
        return raw
    made = {TYPE: "float", VALUE: "-nan" if math.copysign(1.0, raw) < 0 else "nan"}
    if np.float64(from_json(made)).tobytes() != np.float64(raw).tobytes():
        raise ValueError("a number, not a nan with a payload")
    return made


def _of_text(raw: str) -> str:
    if "\0" in raw:
        raise ValueError("a string without the character NUL, at which a file ends it")
    return raw


def _of_dict(raw: Mapping[Any, Any]) -> Any:
    if all(type(name) is str for name in raw) and TYPE not in raw:
        return {_of_text(name): to_json(entry) for name, entry in raw.items()}
    return {TYPE: "dict", VALUE: [[to_json(name), to_json(entry)] for name, entry in raw.items()]}


def _of_datetime(raw: datetime) -> Any:
    made = {TYPE: "datetime", VALUE: raw.replace(tzinfo=None).isoformat()} | _of_zone(raw)
    back = from_json(made)
    if (back, repr(back)) != (raw, repr(raw)):
        raise ValueError("a date without a time zone, with a fixed offset or with a zone of zoneinfo")
    return made


def _of_zone(raw: datetime) -> dict[str, Any]:
    zone = raw.tzinfo
    made: dict[str, Any] = {"fold": 1} if raw.fold else {}
    if isinstance(zone, ZoneInfo):
        return made | {"zone": str(zone.key)}
    offset = raw.utcoffset()
    return made if offset is None else made | {"offset": [offset.days, offset.seconds, offset.microseconds]}


def _of_numpy(raw: np.generic) -> Any:
    name = f"np.{type(raw).__name__}"
    if isinstance(raw, (np.datetime64, np.timedelta64)):
        if np.datetime_data(raw.dtype)[0] == "generic":
            raise ValueError("a date or duration with a unit")
        return {TYPE: f"np.{raw.dtype.name}", VALUE: int(raw.astype("i8"))}
    if raw.dtype.kind not in "biufU":
        raise ValueError(WANTED)
    made = {TYPE: name, VALUE: to_json(float(raw) if isinstance(raw, np.floating) else raw.item())}
    if repr(from_json(made)) != repr(raw):
        raise ValueError("a number that a float of 64 bits holds")
    return made


def _of_array(raw: np.ndarray[Any, Any]) -> Any:
    kind, flat = raw.dtype.kind, raw.ravel()
    if not _is_dtype(raw.dtype):
        raise ValueError(WANTED)
    entries = flat.astype("i8").tolist() if kind in "Mm" else flat.tolist()
    value: dict[str, Any] = {VALUE: entries}
    if kind == "O" or kind == "U" or (kind == "f" and not np.isfinite(flat).all()):
        value = {VALUE: [to_json(entry) for entry in entries]}
    elif kind in "iu" and len(entries) >= MIN_CONSECUTIVE and (np.diff(flat.astype(object)) == 1).all():
        value = {"start": entries[0], "count": len(entries)}
    name = raw.dtype.name if raw.dtype.isnative and kind != "U" else raw.dtype.str
    shape = {} if raw.ndim == 1 else {"shape": list(raw.shape)}
    return {TYPE: "np.ndarray", "dtype": name, **shape, **value}


def _is_dtype(dtype: np.dtype[Any]) -> bool:
    """Return True for entries that an array may have."""
    return dtype.kind in "biufUMmO" and dtype.itemsize <= (LONGEST_TEXT if dtype.kind == "U" else 8)


def _of_pandas(raw: Any) -> Any:
    name = f"pd.{type(raw).__name__}"
    if name not in ("pd.Timestamp", "pd.Timedelta", "pd.DatetimeIndex"):
        raise ValueError(WANTED)
    made = {TYPE: name, "unit": raw.unit}
    if name == "pd.DatetimeIndex":
        naive = raw if raw.tz is None else raw.tz_convert(_UTC).tz_localize(None)
        made |= {VALUE: naive.to_numpy().astype("i8").tolist(), "freq": raw.freqstr or "", "name": raw.name or ""}
        made |= _of_zone(datetime(2020, 1, 1, tzinfo=raw.tz))
        back = from_json(made)
        same = raw.identical(back) and raw.freq == back.freq
    else:
        made |= {VALUE: int(raw.to_numpy().astype("i8"))} | (_of_zone(raw) if name == "pd.Timestamp" else {})
        back = from_json(made)
        same = (back, repr(back), back.unit) == (raw, repr(raw), raw.unit)
    if not same:
        raise ValueError("a date without a time zone, with a fixed offset or with a zone of zoneinfo")
    return made


_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    bool: lambda raw: raw,
    int: _of_int,
    float: _of_float,
    str: _of_text,
    type(None): lambda raw: {TYPE: "None"},
    list: lambda raw: [to_json(entry) for entry in raw],
    tuple: lambda raw: {TYPE: "tuple", VALUE: [to_json(entry) for entry in raw]},
    range: lambda raw: {TYPE: "range", VALUE: [_of_int(raw.start), _of_int(raw.stop), _of_int(raw.step)]},
    dict: _of_dict,
    date: lambda raw: {TYPE: "date", VALUE: raw.isoformat()},
    datetime: _of_datetime,
    timedelta: lambda raw: {TYPE: "timedelta", VALUE: [raw.days, raw.seconds, raw.microseconds]},
    np.ndarray: _of_array,
}


# --- readers ----------------------------------------------------------------------------------------------------------


def _zone(stated: Mapping[str, Any]) -> Any:
    if "zone" in stated:
        return ZoneInfo(stated["zone"])
    if "offset" not in stated:
        return None
    return timezone(timedelta(*stated["offset"]))


def _to_datetime(stated: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(stated[VALUE]).replace(tzinfo=_zone(stated), fold=stated.get("fold", 0))


def _to_numpy(stated: Mapping[str, Any]) -> Any:
    name, value = stated[TYPE].removeprefix("np."), from_json(stated[VALUE])
    if name.startswith(("datetime64", "timedelta64")):
        return np.int64(value).astype(name)[()]
    kind = getattr(np, "bool_" if name == "bool" else name)
    if not issubclass(kind, (np.bool_, np.integer, np.floating, np.str_)):
        raise TypeError("it is no type of NumPy's numbers")
    return kind(value)


def _to_array(stated: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    dtype = np.dtype(stated["dtype"])
    if not _is_dtype(dtype):
        raise TypeError(f"no array has the entries {dtype}")
    if stated.get("count", 0) > MAX_CONSECUTIVE:
        raise ValueError(f"it has more than {MAX_CONSECUTIVE:,} entries")
    value = from_json(stated[VALUE]) if VALUE in stated else range(stated["start"], stated["start"] + stated["count"])
    made = np.fromiter(value, "i8" if dtype.kind in "Mm" else dtype, len(value)).astype(dtype)
    return made.reshape(stated.get("shape", [len(value)]))


def _to_pandas(stated: Mapping[str, Any]) -> Any:
    pd = importlib.import_module("pandas")  # only if a value needs it: workers import no pandas
    kind, unit, zone = stated[TYPE], stated["unit"], _zone(stated)
    if kind == "pd.Timedelta":
        return pd.Timedelta(np.timedelta64(stated[VALUE], unit))
    if kind == "pd.Timestamp":
        made: Any = pd.Timestamp(np.datetime64(stated[VALUE], unit))
    else:
        made = pd.DatetimeIndex(np.array(stated[VALUE], "i8").astype(f"M8[{unit}]"), name=stated["name"] or None)
    if zone is not None:
        made = made.tz_localize(_UTC).tz_convert(zone)
    if kind == "pd.DatetimeIndex" and stated["freq"]:
        made = pd.DatetimeIndex(made, freq=stated["freq"])
    return made


_DATES = ("date", "datetime", "timedelta", "pd.Timestamp", "pd.Timedelta")
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "None": lambda stated: None,
    "float": lambda stated: float(stated[VALUE]),
    "tuple": lambda stated: tuple(from_json(stated[VALUE])),
    "range": lambda stated: range(*stated[VALUE]),
    "dict": lambda stated: {from_json(name): from_json(entry) for name, entry in stated[VALUE]},
    "date": lambda stated: date.fromisoformat(stated[VALUE]),
    "datetime": _to_datetime,
    "timedelta": lambda stated: timedelta(*stated[VALUE]),
    "np.ndarray": _to_array,
    "pd.Timestamp": _to_pandas,
    "pd.Timedelta": _to_pandas,
    "pd.DatetimeIndex": _to_pandas,
}

"""Run a user function as a method, and convert the returned object to a record."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import DivergedError, ParameterError, ReturnError, StudyError, shorten
from evogt_study.methods.code import MethodSpec, UserCode, read_signature
from evogt_study.methods.current_run import ALL, CHECKPOINT, RNG, SEED, Common, hash_words, make_checkpoint_folder
from evogt_study.methods.protocol import BoundCase, Method, StageCache
from evogt_study.schema.parameters import Parameter, get_defaults, integer
from evogt_study.schema.records import MAX_EXACT_INT, Datum, Record
from evogt_study.schema.values import Exact, Values, dump_canonical, is_composite, to_nanoseconds, to_numpy_date
from evogt_study.schema.variables import RETURNED_DTYPE, can_store_attribute, explain_reserved_name

PROBLEM = "problem"
"""Name of the argument through which a user function receives the problem of the study."""
_PATH_TYPES = (Path, "Path", "pathlib.Path", "Path | None")
"""Annotations of arguments that are paths, relative to the study file."""


@dataclass(frozen=True, eq=False)
class UserFunction(Method):
    """Method that calls a user function.  All parameters are key-only parameters."""

    code: UserCode
    function: Any
    parameters: Mapping[str, Parameter]
    common: Common

    @staticmethod
    def of(spec: MethodSpec) -> UserFunction:
        """Create the method.  Raises StudyError without a user function, or with a problem or an output."""
        if not isinstance(spec.method, UserCode):
            raise StudyError(f"`method` must be file.py:function, got {spec.method!r}")
        reference = spec.method.reference
        if spec.problem is not None or spec.output is not None:
            name = "problem" if spec.problem is not None else "output"
            raise StudyError(
                f"`{name}` must be left out with the method {reference}. A function that solves a problem must have an "
                "argument `problem`"
            )
        function = spec.method.load()
        return UserFunction(spec.method, function, read_function_parameters(function, reference), spec.common)

    def bind(self, values: Values) -> UserCase:
        return UserCase(self, values)

    @cached_property
    def setup(self) -> str:
        """Canonical JSON of the setup, which is equal for all cases."""
        return dump_canonical({"code": self.code.fingerprint, **self.describe_streams()})

    def describe_streams(self) -> dict[str, Any]:
        """Return the entries of the setup that determine the random streams."""
        is_part = self.has_streams and self.common != ALL
        return {"common": self.common, "drawn by": self.code.attribute} if is_part else {}

    @property
    def has_streams(self) -> bool:  # type: ignore[override]
        return RNG in self.parameters

    @cached_property
    def key_only_parameters(self) -> frozenset[str]:  # type: ignore[override]  # all parameters
        return frozenset(self.parameters)

    def list_required_parameters(self, values: Values) -> tuple[str, ...]:
        is_unused = RNG in values and SEED not in self.names
        return tuple(name for name in super().list_required_parameters(values) if name != SEED or not is_unused)

    # cached, because reading a signature takes as long as the rest of a short run
    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments of the function."""
        return list_arguments(self.function)

    @cached_property
    def paths(self) -> frozenset[str]:
        """Names of the arguments with the annotation of a path, which may be a string."""
        arguments = inspect.signature(self.function).parameters.items()
        return frozenset(name for name, each in arguments if each.annotation in _PATH_TYPES)

    @cached_property
    def defaults(self) -> Values:
        """Default values of the arguments, by name."""
        return get_defaults(self.parameters)


@dataclass(frozen=True, eq=False)
class UserCase(BoundCase):
    """One case of a user function."""

    method: Any
    values: Values

    @property
    def setup(self) -> str:
        return str(self.method.setup)

    @property
    def key_only_values(self) -> Values:
        return self.values

    @property
    def defaults(self) -> Values:
        defaults: Values = self.method.defaults
        return defaults

    def check(self) -> None:
        if RNG in self.values and SEED in self.values and SEED not in self.method.names:
            raise ParameterError(SEED, "left out if `rng` has a value", self.values[SEED])

    def call(self, values: Values, decisive: Values, more: Mapping[str, Any]) -> Any:
        """Call the user function.  `decisive` and the values of the case determine the random stream."""
        method, objects = self.method, dict(self.method.code.objects)
        arguments = {name: to_argument(value, objects) for name, value in values.items()}
        for name in method.paths & arguments.keys():  # relative to the folder of the study
            if isinstance(arguments[name], str):
                arguments[name] = Path(method.code.folder) / arguments[name]
        if RNG in method.names and RNG not in arguments:
            decisive = {"method": method.code.attribute, **decisive, **self.values}
            arguments = {name: value for name, value in arguments.items() if name in method.names}
            # with an empty list of integers, the generator equals default_rng(seed)
            words = [int(self.values[SEED]), *hash_words(decisive, method.common)]  # type: ignore[arg-type]  # an integer
            arguments[RNG] = np.random.default_rng(np.random.SeedSequence(words))
        if CHECKPOINT in method.names and CHECKPOINT not in arguments:
            arguments[CHECKPOINT] = make_checkpoint_folder()
        with method.code.enable_imports():
            return method.function(**arguments, **more)

    def run(self, share: StageCache) -> Record:
        return self.check_record(to_record(self.call(self.values, {}, {})))

    def check_record(self, record: Record) -> Record:
        """Check the names of a record and its variable `error`, and remove coordinates that repeat a parameter."""
        known, dims = self.values.keys(), {name for datum in record.variables.values() for name in datum.dims}
        if not known.isdisjoint({*record.variables, *record.coordinates, *dims}):
            scalars = {name: each.values for name, each in record.coordinates.items() if not each.dims}
            given = {name: _to_array(name, self.values[name]) for name in scalars.keys() & known}
            same = {name for name, value in given.items() if np.array_equal(scalars[name], value)}
            coordinates = {name: datum for name, datum in record.coordinates.items() if name not in same}
            for kind, names in (("variable", record.variables), ("coordinate", coordinates), ("dimension", dims)):
                if shared := sorted(known & set(names)):
                    message = f"named `{shared[0]}`, which is a parameter. Rename the {kind}."
                    raise ReturnError(f"the function returned a {kind} {message}")
            record = replace(record, coordinates=coordinates)
        error = record.variables.get("error")
        if error is None or error.values.dtype.kind != "f":
            return record
        if not (np.isfinite(error.values).all() if error.dims else math.isfinite(error.values)):
            raise DivergedError("`error` is not finite")
        return record


def list_arguments(function: Any) -> tuple[str, ...]:
    """Return the names of the arguments of a function, or () for an object without a signature."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def read_function_parameters(function: Any, reference: str) -> dict[str, Parameter]:
    """Return a parameter for each argument, and `seed` for an argument `rng`.  Reserved names raise StudyError."""
    parameters = read_signature(function, reference)
    for name in parameters:
        reason = explain_reserved_name(name)
        if reason is not None:
            raise StudyError(f"the argument `{name}` must have another name, because {reason}")
    for name in {CHECKPOINT, RNG} & parameters.keys():
        parameters[name] = replace(parameters[name], default=None, optional=True)
    if RNG in parameters:
        known = parameters[SEED].default if SEED in parameters else None
        is_seed = isinstance(known, (int, np.integer)) and not isinstance(known, bool)
        parameters[SEED] = Parameter(
            SEED, "an integer >= 0", integer(0), "seed of the random stream", default=known if is_seed else None,
            remedy="set `seed` in [axes] or [constants]. It decides the generator `rng`",
        )  # fmt: skip
    return parameters


def to_argument(value: Any, objects: Mapping[str, bytes]) -> Any:
    """Return the value of a parameter as an argument of a user function, which may change lists and arrays."""
    if type(value) in (int, float, str, bool):  # the usual types first, because the other tests take ten times as long
        return value
    if isinstance(value, Exact):
        return value.make(objects)
    if isinstance(value, tuple):
        return [to_argument(entry, objects) for entry in value]
    return dict(value.content()) if is_composite(value) else value


# --- returned objects -------------------------------------------------------------------------------------------------

VALUE_NAME = "value"
"""Name of the variable if a function returns one value without a name."""
STORAGE_ATTRIBUTES = f"""
    missing_value scale_factor add_offset dtype calendar coordinates bounds grid_mapping valid_min valid_max valid_range
    {RETURNED_DTYPE}
""".split()
"""Names of attributes that describe the storage of values in a file.  A record omits these attributes."""
_MAX_ITEM_BYTES = {"f": 8, "c": 16}
"""Maximum number of bytes of a floating-point and of a complex number in a result."""


def to_record(returned: Any) -> Record:
    """Return the record of a returned object, as docs/returned_values.md explains.  Raises ReturnError."""
    record = _RecordBuilder()
    if type(returned) is dict:  # the usual case
        record.add_returned_mapping("", returned)
    else:
        record.add("", returned)
    coordinates = any(datum.values.size for datum in record.coordinates.values())
    if not (record.variables or coordinates or record.lacks_a_value):
        raise ReturnError("the function returned nothing to store. Return a number, a mapping or an xarray.Dataset.")
    lengths: dict[str, int] = {}
    for name, datum in (*record.variables.items(), *record.coordinates.items()):
        for dim, length in zip(datum.dims, datum.values.shape, strict=True):
            if lengths.setdefault(dim, length) != length:
                other = f"{lengths[dim]} in another variable. Rename one dimension."
                raise ReturnError(f"the function returned `{name}` with {length} values along {dim}, but {other}")
    for name in (name for name in record.variables if name in lengths or name in record.coordinates):
        kind = "dimension" if name in lengths else "coordinate"
        raise ReturnError(f"the function returned a variable and a {kind} named `{name}`. Rename the {kind}.")
    return Record(record.variables, record.coordinates, record.attributes, tuple(sorted(record.left_out)))


class _RecordBuilder:
    """Builder of a record from the parts of a returned object."""

    def __init__(self) -> None:
        self.variables: dict[str, Datum] = {}
        self.coordinates: dict[str, Datum] = {}
        self.attributes: dict[str, Datum] = {}
        self.left_out: set[str] = set()
        self.lacks_a_value = False

    # attributes identify the types, because a worker imports neither pandas nor xarray nor SciPy
    def add(self, name: str, value: Any, of_object: bool = False) -> None:
        """Add a value.  `name` is "" for the returned object.  `of_object` is true for a field of a result object."""
        if hasattr(value, "to_xarray"):  # an object of pandas
            value = _to_xarray(name or VALUE_NAME, value)
        prefix = f"{name}_" if name else ""
        if of_object and isinstance(value, np.ndarray) and not value.size:
            self.lacks_a_value = True
        elif of_object and type(value) in (list, tuple) and value and all(getattr(each, "ndim", 0) for each in value):
            for number, each in enumerate(value):  # each array of a list becomes one variable
                self.add(f"{name}_{number}", each, of_object=True)
        elif hasattr(type(value), "subtree"):  # a DataTree
            for node in value.subtree:
                group = node.path.removeprefix(value.path.rstrip("/")).strip("/").replace("/", "_")
                self._add_dataset(f"{prefix}{group}_" if group else prefix, node.to_dataset(inherit=False))
        elif hasattr(value, "data_vars"):
            self._add_dataset(prefix, value)
        elif hasattr(value, "dims") and hasattr(value, "coords"):  # a DataArray
            name = name or str(value.name or VALUE_NAME)
            self._add_coordinates("", value.coords)
            self._add_datum(name, tuple(map(str, value.dims)), value.values, self._keep_attributes(name, value.attrs))
        elif (parts := _list_fields(value)) is not None:
            for field, part in parts:
                self.add(prefix + field, part, of_object=True)
        elif isinstance(value, Mapping):
            self.add_returned_mapping(prefix, value)
        elif value is None and of_object:
            self.left_out.add(f"`{name}` (None)")
        elif value is None:
            self.lacks_a_value |= bool(name)
        elif callable(value):
            self.left_out.add(f"`{name or VALUE_NAME}` (a function)")
        elif _is_pair(value):
            names = value[0] if isinstance(value[0], (list, tuple)) else [value[0]]
            self._add_datum(name or VALUE_NAME, tuple(names), value[1], {})
        else:
            name = name or VALUE_NAME
            array = _to_array(name, value)
            self._add_datum(name, tuple(f"{name}_{i}" for i in range(array.ndim)), array, {})

    def add_returned_mapping(self, prefix: str, values: Mapping[Any, Any]) -> None:
        """Add the values of a mapping.  The name of a variable consists of `prefix` and the key."""
        for key, value in values.items():
            name = f"{prefix}{key}"
            # numbers first, because the other tests take a third of a quick run
            is_number = type(value) in (float, bool) or (type(value) is int and abs(value) <= MAX_EXACT_INT)
            if is_number and name not in self.variables:
                _check_name("variable", name)
                self.variables[name] = Datum((), np.asarray(value))
            else:
                self.add(name, value)

    def _add_dataset(self, prefix: str, data: Any) -> None:
        """Add a Dataset.  `prefix` is the path of the Dataset in the returned DataTree or mapping."""
        self._add_coordinates(prefix, data.coords)
        for name, value in data.data_vars.items():
            own = f"{prefix}{name}"
            dims = tuple(f"{prefix}{dim}" for dim in value.dims)
            self._add_datum(own, dims, value.values, self._keep_attributes(own, value.attrs))
        for name, attribute in self._keep_attributes("", data.attrs).items():
            array = np.asarray(attribute)
            self.attributes[f"{prefix}{name}"] = Datum((f"{prefix}{name}_0",) * array.ndim, array)

    def _add_coordinates(self, prefix: str, coordinates: Any) -> None:
        for key, data in coordinates.items():
            name, dims = f"{prefix}{key}", tuple(f"{prefix}{dim}" for dim in data.dims)
            for kind, each in (("coordinate", name), *(("dimension", dim) for dim in dims)):
                _check_name(kind, each)
            datum = Datum(dims, _check_array(name, data.values), self._keep_attributes(name, data.attrs))
            if datum.values.dtype.kind == "c":
                raise ReturnError(f"the function returned a coordinate `{name}` of complex numbers. Return floats.")
            known, has_nan = self.coordinates.setdefault(name, datum), datum.values.dtype.kind in "fMm"
            is_same = known.dims == dims and known.values.dtype == datum.values.dtype
            if not is_same or not np.array_equal(known.values, datum.values, equal_nan=has_nan):
                raise ReturnError(f"the function returned two different coordinates `{name}`. Rename one coordinate.")

    def _add_datum(self, name: str, dims: tuple[str, ...], value: Any, attributes: Mapping[str, Any]) -> None:
        """Add a variable, or two variables for the real and the imaginary part of complex values."""
        array = _check_array(name, value)
        for dim in dims:
            _check_name("dimension", dim)
        if array.ndim != len(dims) or len(set(dims)) != len(dims):
            found = f"{array.ndim} dimensions and {len(dims)} dimension names {list(dims)}"
            message = "Return (dims, array), with a different name for each dimension."
            raise ReturnError(f"the function returned `{name}` with {found}. {message}")
        is_complex = array.dtype.kind == "c"
        parts = {"_real": array.real.copy(), "_imag": array.imag.copy()} if is_complex else {"": array}
        for suffix, part in parts.items():
            own = name + suffix
            _check_name("variable", own)
            if own in self.variables:
                raise ReturnError(f"the function returned `{own}` twice. Rename one variable.")
            self.variables[own] = Datum(dims, part, attributes)

    def _keep_attributes(self, name: str, attributes: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the attributes that a file can store, and list all other attributes in `left_out`."""
        kept = {}
        for key, value in attributes.items():
            text = str(key)
            is_name = text.isidentifier() and text.isascii() and can_store_attribute(text)
            if is_name and key not in STORAGE_ATTRIBUTES and _is_storable(value):
                kept[text] = value
            else:
                self.left_out.add(f"the attribute {key}" + (f" of `{name}`" if name else ""))
        return kept


def _list_fields(value: Any) -> list[tuple[str, Any]] | None:
    """Return the fields of a dataclass, a named tuple or a result object of SciPy, or None for any other object."""
    is_of_scipy = type(value).__module__.partition(".")[0] == "scipy" and not callable(value)
    is_tuple = hasattr(value, "_asdict")
    is_sparse = hasattr(value, "toarray")  # a sparse matrix of SciPy
    if isinstance(value, type) or is_sparse or not (is_tuple or is_dataclass(value) or is_of_scipy):
        return None
    found = value._asdict() if is_tuple else getattr(value, "__dict__", {})
    if is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in fields(value)}
    found = value if isinstance(value, Mapping) else found
    return [(str(name), part) for name, part in found.items() if not (is_of_scipy and name.startswith("_"))]


def _is_pair(value: Any) -> bool:
    """Return True for a tuple ``(dims, array)``."""
    if not (isinstance(value, tuple) and len(value) == 2) or isinstance(value[1], str):
        return False
    return all(isinstance(each, str) for each in (value[0] if isinstance(value[0], (list, tuple)) else [value[0]]))


# --- values -----------------------------------------------------------------------------------------------------------


def _to_xarray(name: str, value: Any) -> Any:
    """Convert a pandas object to an xarray object.  Raises ReturnError if the conversion would round an integer."""
    try:
        converted = value.to_xarray()
    except (ValueError, TypeError) as error:  # for example an index with equal rows
        raise ReturnError(f"the function returned `{name}`, which xarray cannot convert: {error}") from None
    for label, column in value.items() if hasattr(converted, "data_vars") else [(name, value)]:
        array = (converted if column is value else converted[label]).values
        is_rounded = column.dtype.kind in "iu" and array.dtype.kind == "f"
        if is_rounded and column.count() and not -MAX_EXACT_INT <= column.min() <= column.max() <= MAX_EXACT_INT:
            message = f"with missing values and integers above {MAX_EXACT_INT}, which no float can hold. Fill the gaps."
            raise ReturnError(f"the function returned `{label}` {message}")
    return converted


def _check_array(name: str, value: Any) -> npt.NDArray[Any]:
    """Return the values as an array of numbers, booleans, strings, dates or durations."""
    array = _to_array(name, value)
    kind = array.dtype.kind
    if kind == "U" and not all(map(_is_text, array.ravel())):
        raise ReturnError(f"the function returned `{name}` with characters that a file cannot hold. Remove them.")
    if kind in "biuU" or (kind in _MAX_ITEM_BYTES and array.dtype.itemsize <= _MAX_ITEM_BYTES[kind]):
        return array
    if kind in "Mm":
        try:
            return to_nanoseconds(array)
        except ValueError as error:
            raise ReturnError(f"the function returned `{name}` of dtype {array.dtype}. Return {error}.") from None
    entries = list(array.ravel()) if kind == "O" else []
    if any(getattr(entry, "tzinfo", None) is not None for entry in entries):
        raise ReturnError(f"the function returned `{name}` with a time zone. Return the date in UTC without a zone.")
    names = sorted({type(entry).__name__ for entry in entries})
    found = f"type{'s' * (len(names) > 1)} {' and '.join(names)}" if names else f"dtype {array.dtype}"
    raise ReturnError(f"the function returned `{name}` of {found}. Return numbers, booleans, strings or dates.")


def _to_array(name: str, value: Any) -> npt.NDArray[Any]:
    if np.ma.is_masked(value):
        if value.dtype.kind != "f":  # only floats have NaN
            raise ReturnError(f"the function returned `{name}` of {value.dtype} with masked entries. Return floats.")
        return np.asarray(np.ma.filled(value, np.nan))
    if hasattr(value, "toarray"):
        raise ReturnError(f"the function returned `{name}`, a sparse matrix. Return x.toarray().")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ReturnError(f"the function returned `{name}`, lists of different lengths. Return an array.") from None
    if array.dtype.kind == "U" and not isinstance(value, (np.ndarray, np.generic)):
        given = np.asarray(value, dtype=object).ravel()
        if not all(isinstance(text, str) for text in given):  # NumPy would convert the numbers to strings
            raise ReturnError(f"the function returned `{name}`, strings and other values in one list. Separate them.")
        if any(text.endswith("\0") for text in given):  # NumPy removes NUL at the end
            raise ReturnError(f"the function returned `{name}` with characters that a file cannot hold. Remove them.")
    if array.dtype.kind == "f" and isinstance(value, (list, tuple)) and (np.abs(array) >= MAX_EXACT_INT).any():
        for entry in np.asarray(value, dtype=object).ravel():
            if isinstance(entry, int) and int(float(entry)) != entry:
                raise ReturnError(f"the function returned `{name}` with the integer {entry}, which no float can hold")
    return _convert_objects(array) if array.dtype.kind in "OT" else array


def _convert_objects(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert an object array of strings, numbers or dates to their dtype.  Return any other array unchanged."""
    entries = list(array.ravel())
    if not entries or any(getattr(entry, "tzinfo", None) is not None for entry in entries):
        return array
    if all(isinstance(entry, str) and not entry.endswith("\0") for entry in entries):  # NumPy removes NUL at the end
        return array.astype(str)
    for types in ((date, np.datetime64), (timedelta, np.timedelta64)):
        if all(isinstance(entry, types) for entry in entries):
            # an exact conversion, because dates of pandas have nanoseconds
            return np.array([to_numpy_date(entry) for entry in entries]).reshape(array.shape)
    (kind, *others) = set(map(type, entries))
    if not others and issubclass(kind, (int, float, complex, np.number, np.bool_)):
        numbers = np.array(entries)
        is_exact = kind is not int or numbers.tolist() == entries  # NumPy rounds integers of more than 64 bits
        return numbers.reshape(array.shape) if numbers.dtype.kind in "biufc" and is_exact else array
    return array


@lru_cache(maxsize=1024)  # all runs return equal names
def _check_name(kind: str, name: str) -> None:
    if not (name.isidentifier() and name.isascii()):
        raise ReturnError(f"the function returned a {kind} named {name!r}. Use ASCII letters, digits and underscores.")
    reason = explain_reserved_name(name)
    if reason is not None:
        raise ReturnError(f"the function returned a {kind} named {shorten(name)}, but {reason}. Rename the {kind}.")


def _is_text(text: str) -> bool:
    return "\0" not in text and text.encode("utf-8", "replace").decode() == text


def _is_storable(value: Any) -> bool:
    """Return True if a NetCDF attribute can store the value."""
    if isinstance(value, (list, tuple)):
        if not value or isinstance(value[0], (list, tuple)):
            return False
        if not all(map(_is_storable, value)) or len({isinstance(each, str) for each in value}) > 1:
            return False
        # NumPy converts integers without a common type to floats
        is_rounded = np.asarray(value).dtype.kind == "f"
        return not is_rounded or all(not isinstance(each, int) or int(float(each)) == each for each in value)
    if isinstance(value, str):
        return _is_text(value)
    array = np.asarray(value) if isinstance(value, (int, float, np.ndarray, np.generic)) else np.array(None)
    return array.ndim < 2 and array.size > 0 and array.dtype.kind in "iuf" and array.dtype.itemsize <= 8

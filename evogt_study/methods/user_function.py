"""A user's own method: a plain function of the parameters that returns a mapping or an xarray.Dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from evogt_study.errors import DivergedError, RunError, StudyError
from evogt_study.methods.protocol import BoundCase, Hints, Method, MethodSpec
from evogt_study.methods.user_code import PythonFile, signature_parameters
from evogt_study.numerics.pipeline import Share
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.reserved_names import holds_attribute, objection
from evogt_study.schema.values import Composite, Values, canonical_json
from evogt_study.schema.variables import OWN_VALUES


@dataclass(frozen=True, eq=False)
class UserFunction(Method):
    """`function` called with the case's parameters by name; its arguments without default are required."""

    file: PythonFile
    function: Any
    parameters: Mapping[str, Parameter]

    @staticmethod
    def of(spec: MethodSpec) -> UserFunction:
        """Make the method.  Raises StudyError where there is no such function, or a problem or output beside it."""
        if not isinstance(spec.method, PythonFile):
            raise StudyError(f"`method` must be file.py:function, got {spec.method!r}")
        reference = f"{spec.method.path}:{spec.method.attribute}"
        if spec.problem is not None or spec.output is not None:
            name = "problem" if spec.problem is not None else "output"
            raise StudyError(f"`{name}` must be left out with the method {reference}, which returns what it wants to")
        function = spec.method.load()
        parameters = signature_parameters(function, reference)
        for name in parameters:
            reason = objection(name)
            if reason is not None:
                raise StudyError(f"the argument `{name}` must have another name, since {reason}")
        return UserFunction(spec.method, function, parameters)

    @property
    def hints(self) -> Hints:
        return Hints(copied=frozenset(self.parameters))

    def bind(self, values: Values) -> UserCase:
        return UserCase(self, values)


@dataclass(frozen=True, eq=False)
class UserCase(BoundCase):
    """One call of the function."""

    method: UserFunction
    values: Values

    @property
    def content(self) -> str:
        file = self.method.file
        return canonical_json({"method": file.attribute, "file": file.content, "values": self.values})

    def run(self, share: Share) -> Record:
        returned = self.method.function(**{name: _plain(value) for name, value in self.values.items()})
        record = as_record(returned)
        _check_names(record, self.method.parameters)
        error = record.variables.get("error")
        if error is not None and error.values.dtype.kind == "f" and not np.isfinite(error.values).all():
            raise DivergedError("`error` is not finite")
        return record


# in the file they are all variables of one group, whose names have to differ
def _check_names(record: Record, parameters: Collection[str]) -> None:
    """Parameters are coordinates of the result, so neither a variable nor a dimension can have their names.

    Nor can the values of a coordinate, which become a variable where they differ between runs.
    """
    dims = {name for datum in record.variables.values() for name in datum.dims}
    coordinates = set(record.coordinates) | {name + OWN_VALUES for name in record.coordinates}
    names = {"variable": set(record.variables), "coordinate": coordinates, "dimension": dims}
    for kind, given in names.items():
        taken = sorted(given & set(parameters))
        if taken:
            raise RunError(f"the method returned a {kind} named `{taken[0]}`, which is a parameter; rename it")


def _plain(value: Any) -> Any:
    """A parameter value in built-in types: a user's function need not know ours."""
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return dict(value.content()) if isinstance(value, Composite) else value


def as_record(returned: Any) -> Record:
    """A record from a mapping of names to scalars, ``(dims, array)`` pairs or DataArrays, or from a Dataset.

    Raises RunError, naming the variable, for what a result file cannot hold.
    """
    variables, arrays = returned, list(returned.values()) if isinstance(returned, Mapping) else []
    if hasattr(returned, "data_vars"):
        variables = returned.data_vars
        arrays = [returned]
    if not isinstance(variables, Mapping):
        raise RunError(f"the method must return a mapping or an xarray.Dataset, got {type(returned).__name__}")
    coordinates = {
        str(name): _datum(str(name), coordinate)
        for array in arrays
        for name, coordinate in getattr(array, "coords", {}).items()
        if coordinate.ndim
    }
    record = Record({str(name): _datum(str(name), value) for name, value in variables.items()}, coordinates)
    _check_dimensions(record)
    return record


def _check_dimensions(record: Record) -> None:
    """A dimension has one length in a record, and is no variable of it; its coordinate has its name.

    A coordinate that differs between runs becomes a variable of its own values, whose name has to be free.
    """
    lengths: dict[str, int] = {}
    for name, datum in (*record.variables.items(), *record.coordinates.items()):
        for dim, length in zip(datum.dims, datum.values.shape, strict=True):
            if lengths.setdefault(dim, length) != length:
                raise RunError(
                    f"the method returned `{name}` with {length} values along {dim}, and {lengths[dim]} elsewhere"
                )
    for name in record.variables:
        if name in lengths or name.removesuffix(OWN_VALUES) in lengths:
            raise RunError(f"the method returned a variable named `{name}`, as its dimension is or its values will be")
    used = {*record.variables, *record.coordinates, *lengths}
    for name in record.coordinates:
        if name + OWN_VALUES in used:
            raise RunError(
                f"the method returned `{name}{OWN_VALUES}`, as the values of `{name}` will be named; rename it"
            )


def _datum(name: str, value: Any) -> Datum:
    _check_name("variable", name)
    attributes: dict[str, Any] = {}
    if hasattr(value, "dims") and hasattr(value, "values"):
        dims, array, attributes = tuple(map(str, value.dims)), np.asarray(value.values), _kept(value.attrs)
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (str, list, tuple)):
        dims, array = (value[0],) if isinstance(value[0], str) else tuple(map(str, value[0])), np.asarray(value[1])
    else:
        dims, array = (), np.asarray(value)
    for dim in dims:
        _check_name("dimension", dim)
    if array.ndim != len(dims) or len(set(dims)) != len(dims):
        raise RunError(
            f"the method returned `{name}` with {array.ndim} dimensions and {len(dims)} dimension names {list(dims)}; "
            "return a scalar or (dims, array), with a different word for each dimension"
        )
    if array.dtype.kind not in "iubU" and array.dtype not in (np.float32, np.float64):
        raise RunError(f"the method returned `{name}` of type {array.dtype}; return numbers, truth values or strings")
    if array.dtype.kind in "iu" and array.size and max(abs(int(array.min())), abs(int(array.max()))) > 2**53:
        raise RunError(
            f"the method returned `{name}` with an integer above 2^53, which a float cannot hold; return text"
        )
    if array.dtype.kind == "U" and any(not _is_unicode(word) for word in array.ravel()):
        raise RunError(f"the method returned `{name}` with characters that are not Unicode")
    if array.dtype.kind == "b":  # as 1 and 0, so that a missing one differs from both
        array = array.astype(np.int8)
    return Datum(dims, array, attributes)


def _check_name(kind: str, name: str) -> None:
    if not _is_word(name):
        raise RunError(f"the method returned a {kind} named {name!r}; names must be ASCII words")
    reason = objection(name)
    if reason is not None:
        raise RunError(f"the method returned a {kind} named {name!r}, but {reason}; rename it")


def _is_unicode(word: str) -> bool:
    return word.encode("utf-8", "replace").decode() == word


def _is_word(name: str) -> bool:
    return name.isidentifier() and name.isascii()


def _kept(attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Attributes that mean the same in a file: strings and numbers, but none that says how values are stored."""
    return {
        str(key): value
        for key, value in attributes.items()
        if _is_storable(value)
        and _is_word(str(key))
        and holds_attribute(str(key))
        and str(key) not in STORAGE_ATTRIBUTES
    }


def _is_storable(value: Any) -> bool:
    """Return True for a value that an attribute of NetCDF can have."""
    if isinstance(value, str):
        return _is_unicode(value) and "\0" not in value
    if isinstance(value, int):
        return not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, float)


# CF and xarray read these as instructions for decoding: kept as data, they would change the numbers
_STORAGE = """
    missing_value scale_factor add_offset dtype calendar coordinates bounds grid_mapping valid_min valid_max valid_range
"""
STORAGE_ATTRIBUTES = frozenset(_STORAGE.split())

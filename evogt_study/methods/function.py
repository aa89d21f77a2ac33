"""A user's own method: a plain function of the parameters that returns a number, a mapping or an xarray.Dataset."""

from __future__ import annotations

import inspect
import math
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from evogt_study.errors import DivergedError, StudyError
from evogt_study.methods.code import UserCode, signature_parameters
from evogt_study.methods.protocol import BoundCase, Hints, Method, MethodSpec, StageCache
from evogt_study.methods.returned import as_record, check_names
from evogt_study.schema.parameters import Parameter
from evogt_study.schema.records import Record
from evogt_study.schema.values import Values, canonical_json, is_composite
from evogt_study.schema.variables import objection

LINES, CHARACTERS = 4, 240
"""Kept of it: the message has room for half a thousand characters, and what went wrong stands at the end."""
# bytes at the end in which these lines are looked for, far more than are kept
READ = 4096

_alone = threading.Lock()
_held: list[tuple[int, TextIO]] = []


@contextmanager
def last_lines_noted() -> Iterator[None]:
    """Add the last lines that the body wrote to standard error to what it raises, as a note; all goes on to be shown.

    Nothing is added where another thread of this process is at it, or no file can be opened.
    """
    # descriptor 2 is one for all threads of a process
    if not _alone.acquire(blocking=False):
        yield
        return
    try:
        (file, text), shown = _file(), os.dup(2)
    except OSError:
        _alone.release()
        yield
        return
    before = sys.stderr  # which may write elsewhere than to descriptor 2, as in a notebook
    try:
        _flush()
        # the descriptor too, since compiled libraries write there and not to sys.stderr
        os.dup2(file, 2)
        sys.stderr = text
        yield
    except BaseException as error:
        note = _tail(file)
        if note:
            error.add_note(f"stderr: {note}")
        raise
    finally:
        _flush()  # while the descriptor is the file's: what is in buffers is the run's
        sys.stderr = before
        os.dup2(shown, 2)
        os.close(shown)
        _pass_on(file)
        _alone.release()


def _file() -> tuple[int, TextIO]:
    """The descriptor of the one file for all runs of this process, and what writes text to it."""
    if not _held:
        with tempfile.TemporaryFile() as file:
            kept = os.dup(file.fileno())
        _held.append((kept, _writer(kept)))
    descriptor, text = _held[0]
    if text.closed:  # by a function that closes standard error: the next run has it again
        _held[0] = descriptor, _writer(descriptor)
    return _held[0]


def _writer(file: int) -> TextIO:
    return open(file, "w", buffering=1, closefd=False)  # as long as the process


def _flush() -> None:
    if _open():
        sys.stderr.flush()


def _open() -> bool:
    return sys.stderr is not None and not sys.stderr.closed


def _tail(file: int) -> str:
    """The last lines on one line."""
    _flush()  # what is still in a buffer is the run's
    end = os.lseek(file, 0, os.SEEK_END)
    lines = [line.strip() for line in _read(file, max(0, end - READ)).splitlines()]
    return " | ".join([line for line in lines if line][-LINES:])[-CHARACTERS:]


def _read(file: int, start: int) -> str:
    """Read the file from `start` on."""
    end = os.lseek(file, 0, os.SEEK_END)
    return os.pread(file, end - start, start).decode("utf-8", "replace")


def _pass_on(file: int) -> None:
    """Show what was written, and leave the file empty."""
    if os.lseek(file, 0, os.SEEK_END):
        if _open():
            sys.stderr.write(_read(file, 0))
        # both: the position stays behind the new end, and the next run would begin with a hole of zeros
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)


PROBLEM = "problem"
"""The argument by which a function asks for the study's problem."""
PATHS = (Path, "Path", "pathlib.Path", "Path | None")
"""Annotations of arguments that are paths, given relative to the study's file."""


@dataclass(frozen=True, eq=False)
class UserFunction(Method):
    """`function` called with the case's parameters by name; its arguments without default are required."""

    code: UserCode
    function: Any
    parameters: Mapping[str, Parameter]

    @staticmethod
    def of(spec: MethodSpec) -> UserFunction:
        """Raises StudyError where there is no such function, or the study asks for what only other methods know."""
        if not isinstance(spec.method, UserCode):
            raise StudyError(f"`method` must be file.py:function, got {spec.method!r}")
        reference = spec.method.reference
        if spec.problem is not None or spec.output is not None:
            name = "problem" if spec.problem is not None else "output"
            raise StudyError(
                f"`{name}` must be left out with the method {reference}, which returns what it wants to; a function "
                "that solves a problem has an argument `problem`"
            )
        function = spec.method.load()
        return UserFunction(spec.method, function, own_parameters(function, reference))

    @property
    def hints(self) -> Hints:
        return Hints(copied=frozenset(self.parameters))

    @cached_property  # a look at the signature takes as long as all else around a short run
    def paths(self) -> frozenset[str]:
        """Names of the arguments that are paths."""
        return path_arguments(self.function)

    def bind(self, values: Values) -> UserCase:
        return UserCase(self, values)


@dataclass(frozen=True, eq=False)
class UserCase(BoundCase):
    """One call of the function."""

    method: UserFunction
    values: Values

    @property
    def content(self) -> str:
        code = self.method.code
        return canonical_json({"method": code.attribute, **code.identity, "values": self.values})

    def run(self, share: StageCache) -> Record:
        method = self.method
        record = as_record(noted(method.function, given_arguments(method.paths, method.code, self.values)))
        check_names(record, method.parameters)
        check_error(record)
        return record


def solves_a_problem(function: Any) -> bool:
    """True of a function with an argument for the study's problem."""
    return PROBLEM in argument_names(function)


def argument_names(function: Any) -> tuple[str, ...]:
    """Names of the arguments; none of what is no function."""
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()


def own_parameters(function: Any, reference: str) -> dict[str, Parameter]:
    """A parameter for each argument.  Raises StudyError for a name that a result cannot have."""
    parameters = signature_parameters(function, reference)
    for name in parameters:
        reason = objection(name)
        if reason is not None:
            raise StudyError(f"the argument `{name}` must have another name, since {reason}")
    return parameters


def given_arguments(paths: frozenset[str], code: UserCode, values: Values) -> dict[str, Any]:
    """The values as a function gets them: in built-in types, and `paths` from the study's folder."""
    given = {name: plain(value) for name, value in values.items()}
    for name in paths & given.keys():
        if isinstance(given[name], str):
            given[name] = Path(code.folder) / given[name]
    return given


def noted(function: Any, arguments: Mapping[str, Any]) -> Any:
    """Call the function.  Raises what it raises, with the last lines that it wrote to standard error."""
    with last_lines_noted():
        return function(**arguments)


def path_arguments(function: Any) -> frozenset[str]:
    """Names of the arguments that are annotated as paths."""
    parameters = inspect.signature(function).parameters.items()
    return frozenset(name for name, each in parameters if each.annotation in PATHS)  # annotations may be text


def check_error(record: Record) -> None:
    """Raise DivergedError where a variable `error` is not finite."""
    error = record.variables.get("error")
    if error is None or error.values.dtype.kind != "f":
        return
    if not (np.isfinite(error.values).all() if error.dims else math.isfinite(error.values)):
        raise DivergedError("`error` is not finite")


def plain(value: Any) -> Any:
    """A parameter value in built-in types: a user's function need not know ours."""
    if type(value) in (int, float, str, bool):  # as a rule: a look at a protocol takes ten times as long
        return value
    if isinstance(value, tuple):
        return [plain(entry) for entry in value]
    return dict(value.content()) if is_composite(value) else value

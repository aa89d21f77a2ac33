"""Define all errors and warnings of the package, and the status of runs.

For an `InputError`, the command prints the message, exits with code 2 and writes no file.  A `RunError` becomes the
status and the message of a run, and the study continues.
"""

from __future__ import annotations

import contextlib
import difflib
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from types import TracebackType
from typing import Any

_MESSAGE_LIMIT = 900
"""Maximum number of characters of an error message."""
_SKIPPED_PATHS = (__file__.removesuffix("errors.py"), contextlib.__file__)
"""Paths whose stack frames `warn` skips when it searches for the line of user code."""


class EvogtError(Exception):
    """Base class of all errors of the package.  The message is one line of limited length."""

    def __init__(self, message: str) -> None:
        super().__init__(cut(" ".join(message.split()), _MESSAGE_LIMIT))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython and notebooks show instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class InputError(EvogtError, ValueError):
    """The input of the user is not valid."""


class ParameterError(InputError):
    """The value of a parameter is not valid, for example "`seed` must be an integer, got 0.5 (axes.seed)"."""

    def __init__(self, name: str, wanted: str, got: Any, *, where: str = "", remedy: str = "") -> None:
        self.name, self.wanted, self.got, self.where, self.remedy = name, wanted, got, where, remedy
        place = f" ({where})" if where else ""
        super().__init__(f"`{name}` must be {wanted}, got {shorten(got)}{place}{format_remedy(remedy)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(ParameterError, where=self.where, remedy=self.remedy), (self.name, self.wanted, self.got)

    def at(self, where: str) -> ParameterError:
        """Return a copy of the error with the place of the invalid value."""
        return ParameterError(self.name, self.wanted, self.got, where=where, remedy=self.remedy)


class FormulaError(InputError):
    """A formula is not in the grammar of formulas, or does not suit the problem."""


class ProblemError(InputError):
    """The data of a problem contradict an assumption of the method, such as positive diffusion."""


class StudyError(InputError):
    """A study cannot be read.  The message names the file, the key, the value and the remedy."""


class ResultError(InputError):
    """A result file cannot be read or written, or holds another study."""


class DamagedResultError(ResultError):
    """A result has invalid run metadata, or values with a wrong checksum."""


class InPythonError(ResultError):
    """A run cannot be computed again, because its function is not in a file."""


class SweepError(EvogtError):
    """A study could not continue.  Its finished runs remain on disk."""


class IncompleteError(EvogtError):
    """A statistic requires all planned runs, but some runs are missing."""


class PilotError(EvogtError):
    """The pilot could not choose a value because every candidate has a run that is not ok."""


class StudyInterruptedError(KeyboardInterrupt):
    """The user interrupted a study.  The message names the place of the finished runs."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython and notebooks show instead of a traceback."""
        return [str(self)]


class RunError(EvogtError):
    """A run could not be completed."""


class DivergedError(RunError):
    """The final numbers of a run are not finite."""


class ReturnError(RunError):
    """A user function returned a value that a result cannot store."""


class EmptySpaceError(RunError):
    """The weighted trial matrix is zero, so the method cannot retain a direction (Algorithm 1, line 3)."""


class IndefiniteStiffnessError(RunError):
    """The matrix I + (dt/2) K(t) is not positive definite, so the midpoint step has no unique solution."""


class AccuracyWarning(UserWarning):
    """The values of a run may be inaccurate.  The message gives the reason and the remedy."""


class CodeWarning(UserWarning):
    """The fingerprint of user code depends on the version of Python or of a package, because source text is missing."""


class ReturnWarning(UserWarning):
    """A result cannot store some parts of the returned objects.  The message names the parts."""


class StoreWarning(UserWarning):
    """A study moved finished runs to the store, or could not reuse runs.  The message names the place of the runs."""


def warn(text: str, kind: type[Warning]) -> None:
    """Issue a warning that points to the line of user code that caused it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIPPED_PATHS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)


def format_remedy(remedy: str) -> str:
    """Format a remedy as a sentence that follows a message, or return "" without a remedy."""
    return f". {remedy[0].upper()}{remedy[1:]}" if remedy else ""


def shorten(value: Any, limit: int = 80) -> str:
    """Return the `repr` of a value, cut to `limit` characters."""
    try:
        return cut(repr(value).replace("\n", " "), limit)
    except (ValueError, RecursionError):  # Python cannot print huge integers and deeply nested lists
        return f"a {type(value).__name__} too large to print"


def remove_package_frames(frame: TracebackType | None) -> TracebackType | None:
    """Remove the frames of this package from a traceback, unless all frames belong to this package."""
    kept, first = [], frame
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(_SKIPPED_PATHS):
            kept.append(frame)
        frame = frame.tb_next
    found: TracebackType | None = None
    for each in reversed(kept):
        found = TracebackType(found, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return found or first


def _show_error(
    kind: type[BaseException], error: BaseException, frames: TracebackType | None, show: Any = sys.excepthook
) -> None:
    """Print an uncaught error without frames of this package, and an interrupt of a study as one line."""
    if isinstance(error, StudyInterruptedError):
        print(error, file=sys.stderr)
    else:
        if isinstance(error, EvogtError):
            frames = remove_package_frames(frames)
            error = error.with_traceback(frames)  # Python prints the frames of the error object
        show(kind, error, frames)


sys.excepthook = _show_error


def suggest(name: str, known: Sequence[str]) -> str:
    """Return a text that suggests the most similar known name, or all known names."""
    # 0.65 accepts two wrong letters of six, and rejects names that only share letters
    near = difflib.get_close_matches(name, known, 1, 0.65)
    return f"Did you mean `{near[0]}`?" if near else f"Choose one of {', '.join(known) or 'none'}."


def name_error(what: str, name: str, known: Iterable[str]) -> InputError:
    """Create the error for an unknown name, with all known names and the most similar name."""
    names = list(known)
    advice = suggest(name, names)
    meant = f". {advice}" if advice.startswith("Did") else ""
    return InputError(f"`{what}` must be one of {', '.join(names) or 'none'}, got {shorten(name)}{meant}")


def cut(text: str, limit: int) -> str:
    """Replace the middle of a text by "..." if the text is longer than `limit`."""
    tail = (limit - 3) // 2
    return text if len(text) <= limit else f"{text[: limit - 3 - tail]}...{text[-tail:]}"


# --- status of runs ---------------------------------------------------------------------------------------------------


# files store these numbers, so add a new status at the end
class Status(IntEnum):
    """Status of a run."""

    not_run = 0
    ok = 1
    failed = 2
    diverged = 3
    timed_out = 4
    lost = 5

    @property
    def text(self) -> str:
        """Name in a message, such as "not run"."""
        return self.name.replace("_", " ")


@dataclass(frozen=True)
class Message:
    """Group of run messages that differ only in numbers, with the number of runs and one example."""

    text: str
    count: int
    where: str
    at: Mapping[str, str]


@dataclass(frozen=True)
class MissingRuns:
    """Counts of the runs that are "not run" or "not ok", by the values of one axis.

    Each entry of `values` holds an axis value, the number of these runs and the number of planned runs.  `more` is the
    number of axis values with such runs that `values` omits.
    """

    state: str
    axis: str
    values: Sequence[tuple[str, int, int]]
    more: int


@dataclass(frozen=True)
class Completeness:
    """Counts of the cases (`points`) and the runs of a study by status, and the most frequent messages."""

    points: int
    planned: int
    counts: Mapping[str, int]
    lacking: Sequence[MissingRuns]
    messages: Sequence[Message]

    @property
    def ok(self) -> int:
        """Number of runs with status ok."""
        return self.counts.get(Status.ok.name, 0)

    def describe(self) -> str:
        """Return the counts as "240 runs, 238 ok, 2 failed", or "160 points, 64 runs, 64 ok" if cases share runs."""
        points = "" if self.points == self.planned else f"{self.points:,} points, "
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in self.counts.items())
        return f"{points}{self.planned:,} run{'s' * (self.planned != 1)}, {counts}"

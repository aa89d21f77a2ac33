"""Every named failure of the package, on one page.

Two families.  An `InputError` is a mistake in what a person wrote: it is reported in one line, ends the command with
exit code 2 and leaves nothing behind.  A `RunError` is what happened inside one run: it becomes that run's `status`
and `message`, and the study goes on.  Messages carry the measured number.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any

MESSAGE_LIMIT = 900
_NOT_THE_USER = (__file__.removesuffix("errors.py"), contextlib.__file__)
"""Files that no warning names as its place: the package's, and context managers, through which it calls itself."""


class EvogtError(Exception):
    """Base of every failure that the package names; its message is one line of bounded length."""

    def __init__(self, message: str) -> None:
        super().__init__(cut(" ".join(message.split()), MESSAGE_LIMIT))


class InputError(EvogtError, ValueError):
    """Something a person wrote cannot be used."""


class ParameterError(InputError):
    """A parameter's value is outside what it may be.

    Reads "`name` must be WANTED, got VALUE (where); REMEDY".
    """

    def __init__(self, name: str, wanted: str, got: Any, *, where: str = "", remedy: str = "") -> None:
        self.name, self.wanted, self.got, self.where, self.remedy = name, wanted, got, where, remedy
        place = f" ({where})" if where else ""
        advice = f"; {remedy}" if remedy else ""
        super().__init__(f"`{name}` must be {wanted}, got {shortened(got)}{place}{advice}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _parameter_error, (self.name, self.wanted, self.got, self.where, self.remedy)

    def at(self, where: str) -> ParameterError:
        """The same failure with the place where the value was written."""
        return ParameterError(self.name, self.wanted, self.got, where=where, remedy=self.remedy)


def _parameter_error(name: str, wanted: str, got: Any, where: str, remedy: str) -> ParameterError:
    """A `ParameterError` unpickled."""
    return ParameterError(name, wanted, got, where=where, remedy=remedy)


class FormulaError(InputError):
    """A formula is outside the admitted grammar, or cannot be used as the problem states it."""


class ProblemError(InputError):
    """A problem's data contradict the method's assumptions (positive diffusion, zero boundary trace)."""


class StudyError(InputError):
    """A study file cannot be read as a study; the message names file, key, what was found and what to write."""


class ResultError(InputError):
    """A result file cannot be read, written, or is not this study's."""


class DamagedResultError(ResultError):
    """A result whose bookkeeping has no meaning, or whose runs are not what was written."""


class InPythonError(ResultError):
    """A run cannot be computed again, since its function was given in Python and is in no file."""


class DamagedShardError(ResultError):
    """A shard's checksums or structure do not hold; its runs count as not run."""


class SweepError(EvogtError):
    """A study could not go on; what is finished is kept."""


class LeavingError(EvogtError):
    """A worker takes no more batches, since its job ends soon; the message is its address."""


class LostBatchError(EvogtError):
    """A batch of runs could not be computed as a whole, for a reason that is none of its runs' own exceptions."""


class IncompleteError(EvogtError):
    """A statistic was asked for over all planned runs, and some have no value."""


class PilotError(EvogtError):
    """The pilot could not choose a value, because no candidate's runs were all ok."""


class RunError(EvogtError):
    """One run could not be completed."""


class DivergedError(RunError):
    """A run's final numbers are not finite."""


class ReturnError(RunError):
    """A value that a function of one's own returned cannot be stored."""


class TimedOutError(RunError):
    """A run took longer than it may."""


class EmptySpaceError(RunError):
    """The weighted trial matrix is zero: sigma_1 = 0, so no direction can be retained (Algorithm 1, line 3)."""


class IndefiniteStiffnessError(RunError):
    """I + (dt/2) K(t) is not positive definite, so the midpoint step is not solvable."""


class DoubtWarning(UserWarning):
    """A run's numbers are to be doubted, for a reason that it shows itself; the message says why and what helps."""


class CodeWarning(UserWarning):
    """A file that a study's own code imports has changed, and is none of those that the study depends on."""


class JobsWarning(UserWarning):
    """Jobs of a batch system could not be cancelled; the message says what becomes of them."""


class StoreWarning(UserWarning):
    """Finished runs were put aside, or could not be taken; the message says where they are."""


def warn(text: str, kind: type[Warning]) -> None:
    """Give a warning whose place is the line outside of this package that led to it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USER):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)


def shortened(value: Any, limit: int = 80) -> str:
    """`value` as it would be typed, cut to `limit` characters."""
    try:
        return cut(repr(value).replace("\n", " "), limit)
    except (ValueError, RecursionError):  # an integer or a nesting beyond what Python prints
        return f"a {type(value).__name__} too large to print"


def cut(text: str, limit: int) -> str:
    """`text`, its middle left out where it is longer than `limit`."""
    tail = (limit - 3) // 2
    return text if len(text) <= limit else f"{text[: limit - 3 - tail]}...{text[-tail:]}"

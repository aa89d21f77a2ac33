"""The shape of a study file: which sections and keys it may have, and of what kind (pydantic models of the TOML).

What the values mean is checked in `study`, which knows the method's parameters.  Every mistake becomes one `StudyError`
line that names file, key, what was found and what to write.
"""

from __future__ import annotations

import difflib
import tomllib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from evogt_study.errors import StudyError, shortened

MAX_CASES = 10_000_000


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SeedRange(_Table):
    """``{ start = 0, count = 20 }``: consecutive integers."""

    start: Annotated[int, Field(ge=0, lt=2**62)] = 0
    count: Annotated[int, Field(ge=1, le=MAX_CASES)]

    @property
    def values(self) -> list[int]:
        """The integers."""
        return list(range(self.start, self.start + self.count))


class WhenTable(_Table):
    """A ``[[when]]`` rule."""

    match: Annotated[dict[str, Any], Field(min_length=1)]
    set: Annotated[dict[str, Any], Field(min_length=1)]


class PilotTable(_Table):
    """The ``[pilot]`` section."""

    parameter: str
    seeds: SeedRange | list[Annotated[int, Field(ge=0, lt=2**62)]]
    minimise: str = "error"
    by: list[str]
    candidates: list[Any] | dict[str, list[Any]]

    @property
    def seed_values(self) -> list[int]:
        """The pilot's seeds."""
        return self.seeds.values if isinstance(self.seeds, SeedRange) else self.seeds


class OutputTable(_Table):
    """The ``[output]`` section."""

    times: Annotated[int, Field(ge=2)] | list[float | int] = 2
    record: list[Literal["error_history", "energy_history", "norm_history", "coefficients", "field"]] = []
    grid: Annotated[int, Field(ge=2, le=4097)] = 65


class ProblemTable(_Table):
    """A problem stated in the study file, ``[problem]``."""

    dimension: Literal[1, 2, 3]
    exact: str | None = None
    initial: str | None = None
    source: str | None = None
    diffusion: str = "1"


class StudyTable(_Table):
    """A whole study file."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$", max_length=100)]
    title: str = ""
    source: str = ""
    method: str = "evolution"
    problem: str | ProblemTable | None = None
    axes: Annotated[dict[str, Any], Field(min_length=1)]
    constants: dict[str, Any] = {}
    when: list[WhenTable] = []
    pilot: PilotTable | None = None
    output: OutputTable | None = None


def read_table(text: str, file: str) -> StudyTable:
    """The table that `text` holds; `file` names it in messages.  Raises StudyError."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise StudyError(f"{file} must be TOML: {shortened(str(error), 120)}") from None
    try:
        return StudyTable.model_validate(raw)
    except ValidationError as error:
        raise StudyError(_one_line(error.errors(include_url=False), file)) from None


def _one_line(errors: list[ErrorDetails], file: str) -> str:
    """The first mistake in words, and how many more there are."""
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")  # a misspelt key explains the missing one
    places = {error["loc"][: len(_written(error["loc"]))] for error in errors}
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    key = ".".join(_written(first["loc"]))
    if first["type"] == "extra_forbidden":
        known = _known_keys(first["loc"][:-1])
        near = difflib.get_close_matches(str(first["loc"][-1]), known, 1)
        advice = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
        return f"unknown key `{key}` ({file}); {advice}{more}"
    if first["type"] == "missing":
        return f"`{key}` must be given ({file}){more}"
    return f"`{key}` must be {_wanted(first)}, got {shortened(first['input'])} ({file}){more}"


def _written(location: tuple[int | str, ...]) -> list[str]:
    """A location without the names that pydantic gives to the alternatives of a union."""
    return [str(part) for part in location if not _is_alternative(part)]


def _is_alternative(part: int | str) -> bool:
    text = str(part)
    return text in ("SeedRange", "ProblemTable", "str", "int", "float") or "[" in text


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    tables: dict[str, type[_Table]] = {
        "when": WhenTable, "pilot": PilotTable, "output": OutputTable, "problem": ProblemTable, "seeds": SeedRange,
    }  # fmt: skip
    names = [part for part in location if part in tables]
    return list((tables[str(names[-1])] if names else StudyTable).model_fields)


def _wanted(error: ErrorDetails) -> str:
    """What pydantic asked for, in the words of our messages."""
    message = error["msg"]
    for prefix in (
        "Input should be a valid ",
        "Input should be ",
        "Value should have ",
        "Dictionary should have ",
        "List should have ",
        "String should ",
    ):
        if message.startswith(prefix):
            article = "a " if prefix.endswith("valid ") else ("" if prefix.endswith("be ") else "one that has ")
            return article + message.removeprefix(prefix)
    return message

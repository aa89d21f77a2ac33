"""The shape of a study file: which sections and keys it may have, and of what kind (pydantic models of the TOML).

What the values mean is checked in `study`, which knows the method's parameters.  Every mistake becomes one `StudyError`
line that names file, key, what was found and what to write.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from evogt_study.errors import StudyError, shortened
from evogt_study.schema.identifiers import checked_doi, checked_license, checked_orcid
from evogt_study.study.case_space import MAX_CASES


# strict: TOML has types, and a "3" that is taken for 3 is a mistake that nobody sees
class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SeedRange(_Table):
    """``{ start = 0, count = 20 }``: consecutive integers."""

    # below 2^62, so that start + count is an int64, as which seeds are stored
    start: Annotated[int, Field(ge=0, lt=2**62)] = 0
    count: Annotated[int, Field(ge=1, le=MAX_CASES)]

    @property
    def values(self) -> list[int]:
        """The integers."""
        return list(range(self.start, self.start + self.count))


class _ParametersTable(_Table):
    """A table whose keys are those of the section, and parameters beside them."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        """What the table says of parameters, by their names."""
        return self.model_extra or {}


class TogetherTable(_ParametersTable):
    """A ``[[together]]`` section: parameters that change along one dimension."""


class SampleTable(_ParametersTable):
    """A ``[[sample]]`` section: points drawn in a box."""

    rule: str
    count: Annotated[int, Field(ge=1, le=MAX_CASES)]
    # below 2^62 as all seeds
    sample_seed: Annotated[int, Field(ge=0, lt=2**62)] = 0
    start: Annotated[int, Field(ge=0, lt=MAX_CASES)] = 0
    extend: bool = False
    second_order: bool = False
    # of Morris' trajectories; 4 are usual since Morris (1991)
    levels: Annotated[int, Field(ge=2, le=1000)] = 4


class PointsTable(_Table):
    """A ``[[table]]`` section: points that are listed."""

    name: str
    file: str | None = None
    rows: list[dict[str, Any]] | None = None


class ExcludeTable(_Table):
    """An ``[[exclude]]`` rule."""

    match: Annotated[dict[str, Any], Field(min_length=1)]


class WhenTable(_Table):
    """A ``[[when]]`` rule."""

    match: Annotated[dict[str, Any], Field(min_length=1)]
    set: Annotated[dict[str, Any], Field(min_length=1)]


class PilotTable(_Table):
    """The ``[pilot]`` section; with several parameters a candidate is a list of a value for each."""

    parameter: str | list[str]
    seeds: SeedRange | list[Annotated[int, Field(ge=0, lt=2**62)]]
    minimise: str = "error"
    by: list[str]
    candidates: list[Any] | dict[str, list[Any]]

    @property
    def parameters(self) -> list[str]:
        """The parameters that are chosen together."""
        return [self.parameter] if isinstance(self.parameter, str) else self.parameter

    @property
    def seed_values(self) -> list[int]:
        """The pilot's seeds."""
        return self.seeds.values if isinstance(self.seeds, SeedRange) else self.seeds


class PrecisionTable(_Table):
    """The ``[precision]`` section."""

    of: str = "mean"
    variable: str = "error"
    half_width: str | float | int
    confidence: float = 0.95
    at_most: Annotated[int, Field(ge=1, le=MAX_CASES)] = 2000


class OutputTable(_Table):
    """The ``[output]`` section."""

    times: Annotated[int, Field(ge=2)] | list[float | int] = 2
    record: list[str] = []
    # 4,097 points a direction are 17 million values of one field in 2-D, or 134 MB
    grid: Annotated[int, Field(ge=2, le=4097)] = 65


class CreatorTable(_Table):
    """One of the ``creators`` of a ``[publication]``; `name` of a person is "Family, Given"."""

    name: Annotated[str, Field(min_length=1)]
    orcid: Annotated[str, AfterValidator(checked_orcid)] | None = None
    affiliation: str = ""
    email: str = ""


class PublicationTable(_Table):
    """The ``[publication]`` section: who made the results, and on what terms others may use them."""

    creators: Annotated[list[CreatorTable], Field(min_length=1)]
    license: Annotated[str, AfterValidator(checked_license)]
    institution: str = ""
    publisher: str = ""
    project: str = ""
    acknowledgement: str = ""
    references: str = ""
    doi: Annotated[str, AfterValidator(checked_doi)] | None = None


class ProblemTable(_Table):
    """A problem stated in the study file, ``[problem]``."""

    dimension: Any
    exact: str | None = None
    initial: str | None = None
    source: str | None = None
    domain: dict[str, Any] | None = None
    diffusion: str | list[Any] = "1"
    advection: list[Any] | None = None
    reaction: str | None = None
    boundary: dict[str, Any] = {}
    lifting: str | None = None
    potential: str | None = None


class StudyTable(_Table):
    """A whole study file."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$", max_length=100)]
    title: str = ""
    source: str = ""
    method: str = "evolution"
    depends: list[str] = []
    problem: str | ProblemTable | None = None
    axes: dict[str, Any] = {}
    together: list[TogetherTable] = []
    sample: list[SampleTable] = []
    table: list[PointsTable] = []
    table_files: dict[str, list[str]] = {}
    exclude: list[ExcludeTable] = []
    constants: dict[str, Any] = {}
    when: list[WhenTable] = []
    pilot: PilotTable | None = None
    precision: PrecisionTable | None = None
    output: OutputTable | None = None
    publication: PublicationTable | None = None


def read_table(text: str, file: str) -> StudyTable:
    """The table that `text` holds; `file` names it in messages.  Raises StudyError."""
    try:
        raw = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise StudyError(f"{file} must be TOML: {shortened(str(error), 120)}") from None
    try:
        table = StudyTable.model_validate(raw)
    except ValidationError as error:
        raise StudyError(_one_line(error.errors(include_url=False), raw, file)) from None
    if not (table.axes or table.together or table.sample or table.table):
        wanted = "given" if "axes" not in raw else "a table with at least 1 entry"
        raise StudyError(f"`axes` must be {wanted}{'' if 'axes' not in raw else ', got {}'} ({file})")
    return table


def read_problem(raw: dict[str, Any], where: str) -> ProblemTable:
    """The formulas of one of several problems; `where` names them in messages.  Raises StudyError."""
    try:
        return ProblemTable.model_validate(raw)
    except ValidationError as error:
        raise StudyError(_one_line(error.errors(include_url=False), raw, where)) from None


@dataclass(frozen=True)
class _Mistake:
    """One of pydantic's errors: the keys that lead to it, and whether it concerns the alternative that was written."""

    error: ErrorDetails
    keys: tuple[str, ...]
    expected: tuple[str, ...]
    meant: bool
    got: Any


def _mistake(error: ErrorDetails, raw: Any) -> _Mistake:
    """Separate an error's keys from the names of a union's alternatives, which pydantic puts between them."""
    keys: list[str] = []
    expected: list[str] = []
    meant = True
    last = len(error["loc"]) - 1
    for position, part in enumerate(error["loc"]):
        if (isinstance(raw, dict) and part in raw) or (isinstance(raw, list) and isinstance(part, int)):
            raw = raw[part]  # type: ignore[index]  # a list's part is its index, as just seen
        elif not (position == last and error["type"] == "missing"):
            kind = _kind(str(part))
            expected.append(kind)
            meant = meant and isinstance(raw, KINDS[kind]) and not isinstance(raw, bool)
            continue
        keys.append(str(part))
    return _Mistake(error, tuple(keys), tuple(expected), meant, raw)


KINDS: dict[str, type | tuple[type, ...]] = {"a table": dict, "a list": list, "an integer": int, "a word": str}


def _kind(alternative: str) -> str:
    """Name the kind of an alternative of a union, from the name that pydantic has for it."""
    if alternative.startswith("list"):
        return "a list"
    return "an integer" if "int" in alternative else "a word" if alternative == "str" else "a table"


def _one_line(errors: list[ErrorDetails], raw: dict[str, Any], file: str) -> str:
    """Describe the first mistake, and count the others."""
    mistakes = [_mistake(error, raw) for error in errors]
    meant = [mistake for mistake in mistakes if mistake.meant] or mistakes
    first = min(meant, key=lambda mistake: mistake.error["type"] != "extra_forbidden")  # explains what is missing
    others = {mistake.keys for mistake in meant} - {first.keys}
    more = f" (and {len(others)} more)" if others else ""
    key = ".".join(first.keys)
    if not first.meant:
        kinds = dict.fromkeys(kind for mistake in mistakes if mistake.keys == first.keys for kind in mistake.expected)
        return f"`{key}` must be {' or '.join(kinds)}, got {shortened(first.got)} ({file}){more}"
    if first.error["type"] == "extra_forbidden":
        known = _known_keys(first.keys[:-1])
        near = difflib.get_close_matches(first.keys[-1], known, 1)
        advice = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
        return f"unknown key `{key}` ({file}); {advice}{more}"
    if first.error["type"] == "missing":
        return f"`{key}` must be given ({file}){more}"
    return f"`{key}` must be {_wanted(first.error)}, got {shortened(first.error['input'])} ({file}){more}"


def _known_keys(location: tuple[str, ...]) -> list[str]:
    tables: dict[str, type[_Table]] = {
        "when": WhenTable, "pilot": PilotTable, "precision": PrecisionTable,
        "output": OutputTable, "problem": ProblemTable, "seeds": SeedRange,
        "together": TogetherTable, "sample": SampleTable, "table": PointsTable, "exclude": ExcludeTable,
        "publication": PublicationTable, "creators": CreatorTable,
    }  # fmt: skip
    names = [part for part in location if part in tables]
    return list((tables[str(names[-1])] if names else StudyTable).model_fields)


KINDS_TOLD = {"Dictionary": "a table", "List": "a list"}


def _wanted(error: ErrorDetails) -> str:
    """Describe what pydantic asked for as our messages do."""
    message = error["msg"]
    if error["type"] == "string_pattern_mismatch":
        return "made of lower-case letters, digits and _"
    if error["type"] == "string_too_long":
        return f"at most {error['ctx']['max_length']} characters long"
    if error["type"] == "too_short":
        kind = KINDS_TOLD.get(error["ctx"]["field_type"], "one")
        return f"{kind} with at least {error['ctx']['min_length']} entry"
    for prefix in (
        "Input should be a valid ",
        "Input should be ",
        "Value error, ",
    ):
        if message.startswith(prefix):
            return ("a " if prefix.endswith("valid ") else "") + message.removeprefix(prefix)
    return message

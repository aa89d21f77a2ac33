"""Define a study as a pydantic model, with the sections and keys of a study file.

The models check the keys and their types.  `reading` checks the values with the parameters of the method.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar

import tomli_w
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from evogt_study.errors import ParameterError, StudyError, format_remedy, shorten, suggest
from evogt_study.schema.variables import BETTER, ESTIMAND, parse_better
from evogt_study.storage.files import parse_toml
from evogt_study.study.case_space import MAX_CASES

_ORCID = re.compile(r"(\d{4}-){3}\d{3}[\dX]", re.ASCII)
# a prefix has 4 to 9 digits in Crossref's pattern; ASCII, since \d is a digit of any script else
_DOI = re.compile(r"10\.\d{4,9}/\S+", re.ASCII)
_ADDRESS = re.compile(r"https?://\S+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9.+-]+")  # of one licence: expressions of several have no address
ORCID_ADDRESS = "https://orcid.org/"
UNKNOWN_KEY, WHOLE_STUDY = "unknown_key", "whole_study"  # types of errors: an unknown key, and inconsistent sections


# strict: TOML has types, and "3" in place of 3 would be a hidden mistake
class TomlTable(BaseModel):
    """Base class of all tables of a study file."""

    model_config = ConfigDict(strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, raw: Any) -> Any:
        # first, since an unknown key may explain a missing one
        for key in raw if isinstance(raw, dict) and cls.model_config.get("extra") != "allow" else ():
            if key not in cls.model_fields:
                context = {"key": key, "advice": suggest(key, [*cls.model_fields])}
                raise PydanticCustomError(UNKNOWN_KEY, "{advice}", context)
        return raw


class SeedRange(TomlTable):
    """Consecutive integers, such as ``{ start = 0, count = 20 }``."""

    start: Annotated[int, Field(ge=0, lt=2**64)] = 0
    """First of the integers."""
    count: Annotated[int, Field(ge=1, le=MAX_CASES)]
    """Number of the integers."""

    @property
    def values(self) -> list[int]:
        """The integers."""
        return list(range(self.start, self.start + self.count))


class _ParametersTable(TomlTable):
    """A table that has parameters in addition to the keys of its section."""

    model_config = ConfigDict(extra="allow")
    name: str
    """Name of the dimension."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Entries of the parameters by name."""
        return self.model_extra or {}


class ZipTable(_ParametersTable):
    """A ``[[zip]]`` section: parameters that change together along one dimension."""


class SampleTable(_ParametersTable):
    """A ``[[sample]]`` section: points that a sampling rule draws."""

    rule: Literal["sobol", "halton", "latin_hypercube", "random", "saltelli", "morris"]
    """Sampling rule: sobol, halton, latin_hypercube, random, saltelli or morris."""
    count: Annotated[int, Field(ge=1, le=MAX_CASES)]
    """Number of points, blocks (saltelli) or trajectories (morris)."""
    sample_seed: Annotated[int, Field(ge=0, lt=2**62)] = 0
    """Seed of the draw, which is not the parameter `seed`."""
    start: Annotated[int, Field(ge=0, lt=MAX_CASES)] = 0
    """Number of points at the beginning that the sample leaves out."""
    second_order: bool = False
    """Add the Saltelli blocks for second-order indices."""
    levels: Annotated[int, Field(ge=2, le=1000, multiple_of=2)] = 4
    """Even number of values of each parameter in Morris trajectories."""


class PointsTable(TomlTable):
    """A ``[[table]]`` section: a list of points."""

    name: str
    """Name of the dimension."""
    file: str | None = None
    """CSV file with a column for each parameter."""
    rows: list[dict[str, Any]] | None = None
    """Points as tables of parameters."""


class ExcludeTable(TomlTable):
    """An ``[[exclude]]`` rule for points without a case."""

    match: Annotated[dict[str, Any], Field(min_length=1)]
    """Values, or lists of values, of axes and parameters.  A point that matches all of them has no case."""


class WhenTable(TomlTable):
    """A ``[[when]]`` rule, which sets dependent parameters."""

    match: Annotated[dict[str, Any], Field(min_length=1)]
    """Values, or lists of values, of axes and parameters.  The rule applies to points that match all of them."""
    set: Annotated[dict[str, Any], Field(min_length=1)]
    """Parameters that the rule sets.  If several rules set a parameter, the last rule wins."""


class PilotTable(TomlTable):
    """The ``[pilot]`` section of a study.  If `parameter` is a list, each candidate is a list of values."""

    parameter: str | list[str]
    """Parameter that the pilot chooses, or a list of parameters that it chooses together."""
    seeds: SeedRange | list[Annotated[int, Field(ge=0, lt=2**64)]]
    """Seeds of the pilot. The study does not use them."""
    minimise: str = "error"
    """Variable with the mean to minimise.  The mean is over the seeds and over the axes that are not in `by`."""
    by: list[str]
    """Axes for which the pilot makes a separate choice at each value."""
    candidates: list[Any] | dict[str, list[Any]]
    """Values to choose from: one list, or one for each value of the first axis in `by`."""

    @property
    def parameters(self) -> list[str]:
        """The parameters that the pilot chooses."""
        return [self.parameter] if isinstance(self.parameter, str) else self.parameter

    @property
    def seed_values(self) -> list[int]:
        """The pilot's seeds."""
        return self.seeds.values if isinstance(self.seeds, SeedRange) else self.seeds


class PrecisionTable(TomlTable):
    """The ``[precision]`` section: the target precision of a study."""

    statistic: str = "mean"
    """Statistic: `mean`, `median`, or `ratio A/B` of the means of two values of an axis or design."""
    variable: str = "error"
    """Variable of the statistic."""
    half_width: str | float | int
    """Half width of the confidence interval: relative, such as `10 %`, or absolute, in the unit of the variable."""
    confidence: float = 0.95
    """Confidence level of the interval."""
    max_seeds: Annotated[int, Field(ge=1, le=MAX_CASES)] = 2000
    """Largest number of seeds of a setup."""


class RandomTable(TomlTable):
    """The ``[random]`` section: the streams of the argument `rng` of a function."""

    common: str | list[str] = "all"
    """Parameters whose values share the stream of a seed: `all`, `none`, or a list of names."""


def check_better(text: str) -> str:
    """Return `text` if it is a direction.  Raises ValueError otherwise."""
    try:
        parse_better(text)
    except ParameterError as error:
        raise ValueError(error.wanted) from None
    return text


class ResourcesTable(TomlTable):
    """The ``[resources]`` section: the needs of one run, as numbers or formulas of parameters."""

    memory: str | None = None
    """Memory, with a unit: `4 GB`, `2*N MB`."""
    cores: str | int = 1
    """Number of cores."""
    minutes: str | int | float | None = None
    """Minutes, for a batch system."""
    queue: str = ""
    """Queue or partition of a batch system."""
    retry_memory: bool = False
    """Run a case that runs out of memory once more, with twice the memory."""


class OutputTable(TomlTable):
    """The ``[output]`` section: recorded variables, saved times and directions."""

    times: Annotated[int, Field(ge=2)] | Annotated[list[float], Field(min_length=1)] = 2
    """Saved times: a list, or the number of evenly spaced times from 0 to the final time."""
    record: list[str] = []
    """Variables to record in addition to the variables of every run."""
    grid: Annotated[int, Field(ge=2, le=4097)] = 65  # 4,097 points are 134 MB of one field in 2-D
    """Points per direction of a recorded `field`."""
    better: dict[str, Annotated[str, AfterValidator(check_better)]] = {}
    """Direction of variables: `lower`, `higher` or `nearest 0.95`.  Without a direction, no text says "best"."""
    estimand: dict[str, Literal["win", "geometric_mean", "mean"]] = {}
    """Quantity that comparisons of a variable estimate: `win`, `geometric_mean` or `mean`."""


def check_orcid(text: str) -> str:
    """Return `text` if it is an ORCID iD.  Raises ValueError for a wrong form or check character (ISO 7064)."""
    total, digits = 0, text.replace("-", "") if _ORCID.fullmatch(text) else "00"
    for digit in digits[:-1]:
        total = (total + int(digit)) * 2
    if digits[-1] != "0123456789X"[(12 - total % 11) % 11]:
        raise ValueError("an ORCID iD such as 0000-0002-1825-0097, with a correct check character")
    return text


def check_doi(text: str) -> str:
    """Return `text` if it has the form of a DOI.  Raises ValueError otherwise."""
    if _DOI.fullmatch(text) is None:
        raise ValueError("a DOI such as 10.5281/zenodo.1234567, without https://doi.org/")
    return text


def check_license(text: str) -> str:
    """Return the SPDX identifier or the web address of a licence.  Raises ValueError for any other text."""
    if _ADDRESS.fullmatch(text):
        return text
    with suppress(InvalidLicenseExpression):
        if _IDENTIFIER.fullmatch(text):
            return canonicalize_license_expression(text)
    raise ValueError("an SPDX identifier such as CC-BY-4.0, or an address that begins with https://")


class CreatorTable(TomlTable):
    """A creator in the ``[publication]`` section.  The name of a person has the form "Family, Given"."""

    name: Annotated[str, Field(min_length=1)]
    """Name of a person ("Family, Given") or of an organisation."""
    orcid: Annotated[str, AfterValidator(check_orcid)] | None = None
    """ORCID of a person."""
    affiliation: str = ""
    """Institution that a person belongs to."""
    email: str = ""
    """Address for questions."""


class PublicationTable(TomlTable):
    """The ``[publication]`` section: creators, licence and origin of the results."""

    creators: Annotated[list[CreatorTable], Field(min_length=1)]
    """Persons or organisations that created the results."""
    license: Annotated[str, AfterValidator(check_license)]
    """SPDX identifier or web address of the licence."""
    institution: str = ""
    """Institution that produced the results."""
    publisher: str = ""
    """Archive or institution that publishes the results."""
    project: str = ""
    """Project that produced the results."""
    acknowledgement: str = ""
    """Acknowledgement of funders and others."""
    references: str = ""
    """Publications that describe the data."""
    doi: Annotated[str, AfterValidator(check_doi)] | None = None
    """DOI of the deposit, if it has one."""

    @property
    def attributes(self) -> dict[str, str]:
        """Global attributes with the names of the conventions ACDD and CF, and `doi`."""
        lists = {
            "creator_name": [each.name for each in self.creators],
            "creator_email": [each.email for each in self.creators],
            "creator_url": [ORCID_ADDRESS + each.orcid if each.orcid else "" for each in self.creators],
            "creator_institution": [each.affiliation for each in self.creators],
        }
        # each creator has the same place in every list; names have commas, so semicolons separate them
        found = {name: "; ".join(values) for name, values in lists.items() if any(values)}
        names = {"publisher": "publisher_name"}
        single = ("license", "institution", "publisher", "project", "acknowledgement", "references", "doi")
        return found | {names.get(name, name): getattr(self, name) for name in single if getattr(self, name)}


class StudyModel(TomlTable):
    """All sections and keys of a study."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+$", max_length=100)]
    """Name of the study and of its result file.  The default is the name of the study file."""
    title: str = ""
    """Title, copied to the result."""
    source: str = ""
    """Origin of the study, copied to the result."""
    method: str = "evolution"
    """Method of the package, `file.py:function`, `package.module:function`, or an entry point."""
    command: str | None = None
    """Program and arguments in place of `method`.  A parameter is a name in braces, `{beta}` or `{beta:.3g}`."""
    template: str | list[str] = []
    """Text files with parameters in braces, which the package writes into the folder of each run of a command."""
    read: dict[str, str] = {}
    """Values that a command writes: `FILE.csv:COLUMN`, `FILE.json:KEY`, `FILE.npy`, `FILE.nc:VARIABLE` or `stdout`."""
    shell: bool = False
    """Let a shell execute the command."""
    container: str = ""
    """Apptainer image that executes the command."""
    keep: bool = False
    """Keep the folder of each run of a command, not only of runs that fail."""
    resources: ResourcesTable | None = None
    """Memory, cores and minutes of one run."""
    depends: list[str] = []
    """Files that are part of the fingerprint of the method.  After a change, the study computes its runs again."""
    problem: str | dict[str, Any] | None = None
    """Name of a problem, `file.py:factory`, or a table.  Its key `kind` names the kind of another package."""
    axes: dict[str, Any] = {}
    """Values of each axis, or a range.  The study runs the product of all axes and designs."""
    zip: list[ZipTable] = []
    """Dimensions along which several parameters change."""
    sample: list[SampleTable] = []
    """Dimensions with points that a sampling rule draws."""
    table: list[PointsTable] = []
    """Dimensions with a list of points."""
    table_files: dict[str, list[str]] = {}
    """Content of the files of tables.  The package writes it when it reads the files."""
    exclude: list[ExcludeTable] = []
    """Rules for points without a case."""
    constants: dict[str, Any] = {}
    """Parameters with one value, or with a formula of other parameters."""
    when: list[WhenTable] = []
    """Rules that set parameters for some values of axes and designs."""
    pilot: PilotTable | None = None
    """Pilot, which chooses parameters for the main phase."""
    precision: PrecisionTable | None = None
    """Target precision.  The study adds seeds until it reaches this precision."""
    random: RandomTable | None = None
    """Random streams of a function with an argument `rng`."""
    output: OutputTable | None = None
    """Recorded variables and saved times."""
    publication: PublicationTable | None = None
    """Creators, licence and origin of the results."""

    @model_validator(mode="after")
    def _check_sections(self) -> StudyModel:
        given = self.model_fields_set
        if not (self.axes or self.zip or self.sample or self.table):
            message = "`axes` must have at least 1 entry unless the study has a design. Give a list of values"
            raise PydanticCustomError(WHOLE_STUDY, message)
        if self.command is not None and "method" in given:
            raise PydanticCustomError(WHOLE_STUDY, "`command` must be given in place of `method`, got both")
        for key in ("template", "read", "shell", "container", "keep"):
            if self.command is None and key in given:
                raise PydanticCustomError(WHOLE_STUDY, f"`{key}` must be given with `command`, got no `command`")
        return self

    @property
    def method_reference(self) -> str:
        """Reference of the method, or the command with its keys as JSON."""
        if self.command is None:
            return self.method
        keys = {name: getattr(self, name) for name in ("command", "read", "shell", "container")}
        return json.dumps({**keys, "template": [self.template] if isinstance(self.template, str) else self.template})

    @property
    def given(self) -> dict[str, Any]:
        """Sections and keys that the study contains, as TOML types."""
        return self.model_dump(exclude_unset=True)

    @property
    def attributes(self) -> dict[str, dict[str, str]]:
        """Attributes of the variables with a direction or an estimand."""
        if self.output is None:
            return {}
        stated: dict[str, Mapping[str, str]] = {BETTER: self.output.better, ESTIMAND: self.output.estimand}
        names = dict.fromkeys(name for table in stated.values() for name in table)
        return {name: {key: table[name] for key, table in stated.items() if name in table} for name in names}


M = TypeVar("M", bound=TomlTable)


def parse_study(text: str, file: str) -> tuple[dict[str, Any], str]:
    """Return the content of a TOML text and the text, and add the file name as `name` if needed.  Raises StudyError."""
    try:
        raw = parse_toml(text)
    except ValueError as error:
        raise StudyError(f"{file} must be TOML: {shorten(str(error), 120)}{suggest_reader(file)}") from None
    stem = PurePath(file).stem
    if "name" in raw or not re.fullmatch("[a-z0-9_]{1,100}", stem):
        return raw, text
    return {"name": stem, **raw}, f'name = "{stem}"\n{text}'


def read_toml(text: str, file: str) -> StudyModel:
    """Return the study of a TOML text.  Messages name `file`.  Raises StudyError."""
    return validate_table(StudyModel, parse_study(text, file)[0], file)


def write_toml(table: Mapping[str, Any]) -> str:
    """Return the text of a study: single values, then sections with one line for each key."""
    lines, sections = [], []
    for key, value in table.items():
        is_list = isinstance(value, list) and value and all(isinstance(each, dict) for each in value)
        if not is_list and not isinstance(value, dict):
            lines.append(_write_line(key, value))
        for section in value if is_list else [value] if isinstance(value, dict) else []:
            head = f"[[{key}]]" if is_list else f"[{key}]"
            sections += ["", head, *(_write_line(*entry) for entry in section.items())]
    return "\n".join([*lines, *sections, ""])


# tomli-w alone writes tables behind other values, but the order of the axes is the order of the dimensions
def _write_line(key: str, value: Any) -> str:
    return f"{tomli_w.dumps({key: 0}).removesuffix('0' + chr(10))}{_write_value(value)}"


def _write_value(value: Any) -> str:
    """Return a value in TOML, on one line."""
    if isinstance(value, dict):
        return f"{{ {', '.join(_write_line(*entry) for entry in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").removesuffix("\n")


def validate_table(model: type[M], raw: Mapping[str, Any], where: str) -> M:
    """Check a table against a model.  Messages name `where`.  Raises StudyError for the first mistake."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise StudyError(_describe_mistake(error.errors(include_url=False), raw, where)) from None


def suggest_reader(file: str) -> str:
    """Return a remedy for a file that is not a study, or "" for an unknown suffix."""
    remedies = {
        ".nc": "read a result with `evogt status`, `summary`, `plot` or `report`",
        ".py": 'run a script with `python`, or name its function in a study file with `method = "FILE.py:NAME"`',
    }
    return format_remedy(remedies.get(PurePath(file).suffix.lower(), ""))


_EXPECTED = {
    "model_type": "a table", "dict_type": "a table", "list_type": "a list", "string_type": "a string",
    "int_type": "an integer", "float_type": "a number", "too_short": "at least 1 entry long",
    "string_too_short": "not empty",
    "string_pattern_mismatch": "made of lower-case letters, digits and _",
    "string_too_long": "at most {max_length} characters long",
}  # fmt: skip
"""Expected value for each type of a pydantic error."""


def _describe_mistake(errors: list[ErrorDetails], raw: Mapping[str, Any], where: str) -> str:
    """Describe the mistake with the deepest key, since pydantic reports one error per alternative of a value."""
    found: dict[tuple[str, ...], list[ErrorDetails]] = {}
    for error in errors:
        keys: list[str] = []
        value: Any = raw
        for part in error["loc"]:  # without the names of alternatives
            if part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int):
                value = value[part]
                keys.append(f"[{part}]" if isinstance(part, int) else str(part))
        if error["type"] in ("missing", UNKNOWN_KEY):
            keys.append(str(error["ctx"]["key"] if "ctx" in error else error["loc"][-1]))
        found.setdefault(tuple(keys), []).append(error)
    deepest = max(found, key=len)
    key, first = ".".join(deepest).replace(".[", "["), found[deepest][0]
    if first["type"] == UNKNOWN_KEY:
        return f"unknown key `{key}` ({where}). {first['msg']}"
    if first["type"] == "missing":
        return f"`{key}` must be given ({where})"
    if first["type"] == WHOLE_STUDY:
        return f"{first['msg']} ({where})"
    expected = (_EXPECTED.get(each["type"], each["msg"]).format(**each.get("ctx", {})) for each in found[deepest])
    wanted = " or ".join(dict.fromkeys(re.sub("^(Input should be|Value error,) ", "", each) for each in expected))
    message = f"`{key}` must be {wanted}, got {shorten(first['input'])} ({where})"
    is_formula = where.endswith(", problem") and isinstance(first["input"], (int, float))
    return f'{message}. Write "{first["input"]}" as a string' if is_formula else message

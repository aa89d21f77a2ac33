"""Tables that are made of the package's own declarations: keys, parameters, kinds, variables, failures.

``{declared} NAME`` in a page stands for one of the tables of `TABLES`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from evogt_study import errors
from evogt_study.methods.loading import METHODS
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.domains import DOMAINS
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.methods import parameters as evolution_parameters
from evogt_study.pde.methods.variables import AXES, RECORDED
from evogt_study.schema.parameters import Parameter, Parametrised, declared_parameters
from evogt_study.schema.variables import BOOKKEEPING, COORDINATES, Variable
from evogt_study.study import model as study_file


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    cells = [head, ["---"] * len(head), *([cell.replace("|", "\\|") or " " for cell in row] for row in rows)]
    return [f"| {' | '.join(row)} |" for row in cells]


def first_sentence(found: object) -> str:
    """Beginning of an object's docstring, which says what it is."""
    return (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")


def plain(text: str) -> str:
    """Text in which Markdown sees no markup but names in back quotes."""
    return text.replace("*", "\\*").replace("_{", "\\_{").replace("<", "&lt;")


WORDS = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMaximum": "below {}",
    "maximum": "at most {}",
    "maxLength": "up to {} characters",
    "pattern": "`{}`",
}


def kind(schema: Mapping[str, Any]) -> str:
    """Say in words what a JSON schema admits."""
    if "$ref" in schema:
        return "a table, below"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind(part) for part in schema["anyOf"] if part.get("type") != "null"))
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object":
        return "table"
    said = [LIMITS[key].format(_number(schema[key])) for key in LIMITS if key in schema]
    return ", ".join([WORDS.get(schema.get("type", ""), "any value"), *said])


def _number(value: Any) -> str:
    return "2^62" if value == 2**62 else f"{value:,}" if isinstance(value, int) else str(value)


def study_keys() -> list[str]:
    """Keys of a study file, section by section, with the kinds that its reader admits."""
    docs = ModuleAnalyzer.for_module(study_file.__name__).find_attr_docs()

    def said(name: str, key: str) -> str:
        found = (docs.get((base.__name__, key)) for base in getattr(study_file, name).__mro__)
        return " ".join(next(filter(None, found))).strip()

    lines: list[str] = []
    whole = study_file.StudyModel.model_json_schema()
    for name, schema in {"StudyModel": whole, **whole["$defs"]}.items():
        required = schema.get("required", ())
        rows = [
            (f"`{key}`", kind(part), "required" if key in required else _default(part), said(name, key))
            for key, part in schema["properties"].items()
        ]
        lines += [
            "",
            first_sentence(getattr(study_file, name)),
            "",
            *table(("key", "is", "if left out", "what it does"), rows),
        ]
    return lines


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) else f"`{value}`"


def parameters(declared: Mapping[str, Parameter]) -> list[str]:
    """Parameters of a method, with the labels that their coordinates have in a result."""

    def default(parameter: Parameter) -> str:
        if parameter.default is not None:
            return f"`{parameter.default}`"
        return "" if parameter.optional else "required"

    rows = [
        (
            f"`{name}`",
            plain(each.long_name) + (f"; {plain(each.comment)}" if each.comment else ""),
            plain(each.wanted),
            default(each),
        )
        for name, each in declared.items()
    ]
    return table(("parameter", "is", "must be", "if left out"), rows)


def baseline(name: str) -> list[str]:
    """Parameters of one of the methods that the paper's is compared with."""
    return parameters(evolution_parameters.with_kinds(declared_parameters(METHODS[name].PARAMETERS)))


def kinds(registry: Mapping[str, type]) -> list[str]:
    """Names that a registry of the package has, each with what it stands for and its parameters."""
    rows = [(f"`{name}`", plain(first_sentence(found))) for name, found in registry.items()]
    each = [found.parameters() for found in registry.values() if issubclass(found, Parametrised)]
    if not each:
        return table(("name", "is"), rows)
    names = [", ".join(f"`{name}`" for name in known) for known in each]
    return table(("name", "is", "parameters"), [(*row, shown) for row, shown in zip(rows, names, strict=True)])


def variables(declared: Iterable[Variable]) -> list[str]:
    """Variables of a result, with the attributes that the file has of them."""
    rows = [
        (
            f"`{each.name}`" + (f" ({', '.join(f'`{dim}`' for dim in each.dims)})" if each.dims else ""),
            plain(each.long_name),
            each.units,
            plain(each.comment),
        )
        for each in declared
    ]
    return table(("variable", "`long_name`", "`units`", "`comment`"), rows)


def coordinates() -> list[str]:
    """Coordinates of a result that are not parameters of the study."""
    known = (*AXES, *COORDINATES.values())
    rows = [(f"`{each.name}`", each.long_name, each.units, each.comment) for each in known]
    return table(("coordinate", "`long_name`", "`units`", "`comment`"), rows)


def failures() -> list[str]:
    """Failures by name, and what the command does on each."""
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]

    def then(failure: type) -> str:
        if issubclass(failure, Warning):
            return "a line of warning, and it goes on"
        if issubclass(failure, errors.InputError):
            return "one line, exit code 2"
        if issubclass(failure, errors.RunError):
            return "`status` and `message` of the run; the study goes on"
        return "one line, exit code 1"

    rows = [(f"`{each.__name__}`", plain(first_sentence(each)), then(each)) for each in found]
    return table(("failure", "means", "what happens"), rows)


TABLES: dict[str, Callable[[], list[str]]] = {
    "study-keys": study_keys,
    "evolution": lambda: parameters(evolution_parameters.PARAMETERS),
    **{name: lambda name=name: baseline(name) for name in METHODS if name != "evolution"},
    "dictionaries": lambda: kinds(FAMILIES),
    "integrators": lambda: kinds(INTEGRATORS),
    "domains": lambda: kinds(DOMAINS),
    "measured": lambda: variables(RECORDED),
    "bookkeeping": lambda: variables(BOOKKEEPING.values()),
    "coordinates": coordinates,
    "failures": failures,
}


class Declared(SphinxDirective):
    """One of the tables of `TABLES`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the table's lines in place of the directive."""
        made = nodes.container()
        self.state.nested_parse(StringList(TABLES[self.arguments[0]](), source=__name__), 0, made)
        return made.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("declared", Declared)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

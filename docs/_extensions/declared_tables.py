"""Tables from the declarations of the package: keys, parameters, registered names, variables, errors.

The directive ``{declared} NAME`` of a page inserts the table `TABLES[NAME]`.
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
from evogt_study.pde.methods.declarations import AXES, PARAMETERS, RECORDED, add_kinds
from evogt_study.schema.parameters import Parameter, Parametrised
from evogt_study.schema.variables import COORDINATES, RUN_METADATA, Variable
from evogt_study.study import model as study_file


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    cells = [head, ["---"] * len(head), *([cell.replace("|", "\\|") or " " for cell in row] for row in rows)]
    return [f"| {' | '.join(row)} |" for row in cells]


def first_sentence(found: object) -> str:
    """Return the first paragraph of a docstring."""
    return (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")


def escape_markup(text: str) -> str:
    """Escape all markup except names in back quotes."""
    return text.replace("*", "\\*").replace("_{", "\\_{").replace("<", "&lt;")


TYPE_NAMES = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}
LIMITS = {
    "minimum": "at least {}",
    "exclusiveMaximum": "below {}",
    "maximum": "at most {}",
    "maxLength": "up to {} characters",
    "pattern": "`{}`",
}


def describe_schema(schema: Mapping[str, Any]) -> str:
    """Describe the values that a JSON schema admits."""
    if "$ref" in schema:
        return "a table, below"
    if "anyOf" in schema:
        return " or ".join(
            dict.fromkeys(describe_schema(part) for part in schema["anyOf"] if part.get("type") != "null")
        )
    if schema.get("type") == "array":
        return f"list of {describe_schema(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object":
        return "table"
    limits = [LIMITS[key].format(_number(schema[key])) for key in LIMITS if key in schema]
    return ", ".join([TYPE_NAMES.get(schema.get("type", ""), "any value"), *limits])


def _number(value: Any) -> str:
    return "2^62" if value == 2**62 else f"{value:,}" if isinstance(value, int) else str(value)


def study_keys() -> list[str]:
    """Return a table of keys for each section of a study file."""
    docs = ModuleAnalyzer.for_module(study_file.__name__).find_attr_docs()

    def describe_key(name: str, key: str) -> str:
        found = (docs.get((base.__name__, key)) for base in getattr(study_file, name).__mro__)
        return " ".join(next(filter(None, found))).strip()

    lines: list[str] = []
    whole = study_file.StudyModel.model_json_schema()
    for name, schema in {"StudyModel": whole, **whole["$defs"]}.items():
        required = schema.get("required", ())
        rows = [
            (
                f"`{key}`",
                describe_schema(part),
                _default(part, key in required),
                describe_key(name, key),
            )
            for key, part in schema["properties"].items()
        ]
        lines += [
            "",
            first_sentence(getattr(study_file, name)),
            "",
            *table(("key", "value", "default", "effect"), rows),
        ]
    return lines


def _default(schema: Mapping[str, Any], required: bool) -> str:
    value = schema.get("default")
    if required:
        return "required"
    return "" if value in (None, "", [], {}) else f"`{value}`"


def parameters(declared: Mapping[str, Parameter]) -> list[str]:
    """Return the table of the parameters of a method."""

    def default(parameter: Parameter) -> str:
        if parameter.default is not None:
            return f"`{parameter.default}`"
        return "" if parameter.optional else "required"

    rows = [
        (
            f"`{name}`",
            escape_markup(each.long_name) + (f"; {escape_markup(each.comment)}" if each.comment else ""),
            escape_markup(each.wanted),
            default(each),
        )
        for name, each in declared.items()
    ]
    return table(("parameter", "meaning", "valid values", "default"), rows)


def baseline(name: str) -> list[str]:
    """Return the table of the parameters of a baseline method."""
    return parameters(add_kinds(METHODS[name].PARAMETERS))


def kinds(registry: Mapping[str, type]) -> list[str]:
    """Return the table of the names of a registry, with their parameters."""
    rows = [(f"`{name}`", escape_markup(first_sentence(found))) for name, found in registry.items()]
    each = [found.parameters() for found in registry.values() if issubclass(found, Parametrised)]
    if not each:
        return table(("name", "meaning"), rows)
    names = [", ".join(f"`{name}`" for name in known) for known in each]
    return table(("name", "meaning", "parameters"), [(*row, shown) for row, shown in zip(rows, names, strict=True)])


def variables(declared: Iterable[Variable]) -> list[str]:
    """Return the table of variables with their attributes in the file."""
    rows = [
        (
            f"`{each.name}`" + (f" ({', '.join(f'`{dim}`' for dim in each.dims)})" if each.dims else ""),
            escape_markup(each.long_name),
            each.units,
            escape_markup(each.comment),
        )
        for each in declared
    ]
    return table(("variable", "`long_name`", "`units`", "`comment`"), rows)


def coordinates() -> list[str]:
    """Return the table of coordinates that are not parameters."""
    known = (*AXES, *COORDINATES.values())
    rows = [(f"`{each.name}`", each.long_name, each.units, each.comment) for each in known]
    return table(("coordinate", "`long_name`", "`units`", "`comment`"), rows)


def failures() -> list[str]:
    """Return the table of errors and warnings, with their effects."""
    found = [each for _, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]

    def describe_effect(failure: type) -> str:
        if issubclass(failure, Warning):
            return "a warning; the command continues"
        if issubclass(failure, errors.InputError):
            return "one line, exit code 2"
        if issubclass(failure, errors.RunError):
            return "status and message of the run; the study continues"
        return "one line, exit code 1"

    rows = [(f"`{each.__name__}`", escape_markup(first_sentence(each)), describe_effect(each)) for each in found]
    return table(("name", "meaning", "effect"), rows)


TABLES: dict[str, Callable[[], list[str]]] = {
    "study-keys": study_keys,
    "evolution": lambda: parameters(PARAMETERS),
    **{name: lambda name=name: baseline(name) for name in METHODS if name != "evolution"},
    "dictionaries": lambda: kinds(FAMILIES),
    "integrators": lambda: kinds(INTEGRATORS),
    "domains": lambda: kinds(DOMAINS),
    "measured": lambda: variables(RECORDED),
    "run_metadata": lambda: variables(RUN_METADATA.values()),
    "coordinates": coordinates,
    "failures": failures,
}


class Declared(SphinxDirective):
    """Directive that inserts a table of `TABLES`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the table."""
        made = nodes.container()
        self.state.nested_parse(StringList(TABLES[self.arguments[0]](), source=__name__), 0, made)
        return made.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("declared", Declared)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

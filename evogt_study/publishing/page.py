"""Common parts of the HTML pages: their look, pictures inside them, and an environment that escapes every text."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from evogt_study.errors import ParameterError
from evogt_study.methods.problem_kind import kind_of
from evogt_study.text import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROVENANCE: Mapping[str, str] = {
    "date_created": "date",
    "product_version": "evogt-study",
    "git_revision": "revision",
    "git_dirty": "uncommitted changes",
    "versions": "versions",
    "platform": "platform",
    "cpu": "processor",
}
"""Attributes of results that pages show, and what they call them."""

MOST_PROBLEMS = 12
"""Of an axis of problems: a page has room for these, and the study file below has all."""


class Picture(NamedTuple):
    """A figure of a page.  image: its address, with all of it inside; size: width and height in inches."""

    title: str
    caption: str
    alt: str
    image: str
    size: tuple[float, float]


@dataclass(frozen=True)
class StatedProblem:
    """A problem of a study by its label, which is empty if there is one alone; `items` of a list as HTML."""

    label: str
    items: Markup


def stated_problems(study: str) -> list[StatedProblem]:
    """The problems that the text of a study states; none of a text that is no study, or of a method without one."""
    try:
        table = tomllib.loads(study)
    except (ValueError, RecursionError):
        return []
    axes = table.get("axes")
    several = axes.get("problem") if isinstance(axes, dict) else None
    if isinstance(several, list):
        several = {str(each): each for each in several}
    labelled = several if isinstance(several, dict) else {"": table.get("problem")}
    found = [StatedProblem(str(label), _describe_problem(raw)) for label, raw in list(labelled.items())[:MOST_PROBLEMS]]
    return [each for each in found if each.items]


def _describe_problem(stated: object) -> Markup:
    """What its kind shows of a problem; nothing of what no kind is for."""
    if isinstance(stated, str) and ":" in stated:
        return Markup("<li>The problem is made by {}.</li>").format(PurePath(stated.replace(chr(92), "/")).name)
    try:
        return Markup(kind_of(stated).describe(stated)) if isinstance(stated, (str, dict)) else Markup("")  # noqa: S704
    except ParameterError:
        return Markup("")


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure with the name of its file and its words."""

    name: str
    title: str
    caption: str
    alt: str
    figure: Figure


def template(name: str, **known: Any) -> Template:
    """One of the package's templates, in which `known` are global names; every text that is put into it is escaped."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FunctionLoader(_source), finalize=lambda value: shown(value, "\n\t") if type(value) is str else value,
    )  # fmt: skip
    environment.globals |= known
    return environment.get_template(name)


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def data_uri(svg: str) -> str:
    """The address of an SVG inside the page.  In an <img> it can neither run anything nor clash with another."""
    return "data:image/svg+xml," + quote(" ".join(svg.split()), safe=" !()*+,/:;=?@")

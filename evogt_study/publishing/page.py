"""Common parts of the HTML pages: templates that escape all text, figures inside the page, and stated problems."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from evogt_study.errors import ParameterError
from evogt_study.methods.problem_kind import problem_kind_of
from evogt_study.text import escape_text

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
"""Largest number of problems of an axis that a page shows.  The study file on the page has all."""


class Picture(NamedTuple):
    """A figure of a page.  image: a data URI; size: width and height in inches."""

    title: str
    caption: str
    alt: str
    image: str
    size: tuple[float, float]


def template(name: str, **known: Any) -> Template:
    """Return a template of the package with the global names `known`, which escapes all text."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FunctionLoader(_source),
        finalize=lambda value: escape_text(value, "\n\t") if type(value) is str else value,
    )  # fmt: skip
    environment.globals |= known
    return environment.get_template(name)


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def data_uri(svg: str) -> str:
    """Return the data URI of an SVG.  In an <img> it can run nothing and cannot clash with another one."""
    return "data:image/svg+xml," + quote(" ".join(svg.split()), safe=" !()*+,/:;=?@")


@dataclass(frozen=True)
class StatedProblem:
    """A problem of a study with its axis value, or "" if there is only one; items: a list in HTML."""

    label: str
    items: Markup


def stated_problems(study: str) -> list[StatedProblem]:
    """Return the problems that the text of a study states; none for other text or a method without a problem."""
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
    """Return the description of a problem by its kind, or nothing without a kind."""
    if isinstance(stated, str) and ":" in stated:
        return Markup("<li>The problem is made by {}.</li>").format(PurePath(stated.replace(chr(92), "/")).name)
    try:
        return Markup(problem_kind_of(stated).describe(stated)) if isinstance(stated, (str, dict)) else Markup("")  # noqa: S704
    except ParameterError:
        return Markup("")

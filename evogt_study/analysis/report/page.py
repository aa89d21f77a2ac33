"""Common parts of the HTML pages: their look, pictures inside them, and an environment that escapes every text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template

from evogt_study.printable import shown

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


class Picture(NamedTuple):
    """A figure of a page.  image: its address, with all of it inside; size: width and height in inches."""

    title: str
    caption: str
    alt: str
    image: str
    size: tuple[float, float]


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

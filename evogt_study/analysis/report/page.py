"""Common parts of the HTML pages: their look, pictures inside them, and an environment that escapes every text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

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
    """A figure of a page; `image` is SVG text, or the bytes of a file of WebP or SVG.

    name: of its place in the page; size: width and height in inches, where they are known.
    """

    title: str
    caption: str
    alt: str
    image: str | bytes
    name: str = ""
    size: tuple[float, float] = (0.0, 0.0)


class Script(NamedTuple):
    """A script of the package, and the digest by which a page's policy admits it and no other."""

    text: Markup
    digest: str


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
    environment.filters |= {"data_uri": _data_uri}
    environment.globals |= known
    return environment.get_template(name)


def script(name: str) -> Script:
    """One of the package's scripts."""
    text = "\n".join(line.strip() for line in _source(name).splitlines())  # an eighth of it is indentation
    return Script(Markup(text), base64.b64encode(hashlib.sha256(text.encode()).digest()).decode())  # noqa: S704


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _content(image: str | bytes) -> bytes:
    return image.encode() if isinstance(image, str) else image


def _data_uri(image: str | bytes) -> str:
    """The image inside the page.  As an <img> of its own, an SVG can neither run anything nor clash with another."""
    content = _content(image)
    form = "webp" if content.startswith(b"RIFF") else "svg+xml"
    return f"data:image/{form};base64,{base64.b64encode(content).decode()}"

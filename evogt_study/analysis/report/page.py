"""Common parts of the HTML pages: their look, pictures inside them, and an environment that escapes every text."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from evogt_study.errors import ParameterError
from evogt_study.methods.problem_kind import kind_of
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

SPOKEN: Mapping[str, str] = {
    "transnet": "TransNet",
    "gtransnet": "GTransNet",
    "gaussian_rf": "Gaussian RF",
    "uniform_elm": "Uniform ELM",
    "transnet/gtransnet": "TransNet / GTransNet",
    "epsilon": "ε",
    "tau": "τ",
    "gamma": "γ",
    "dt": "Δt",
}


MOST_PROBLEMS = 12
"""Of an axis of problems: a page has room for these, and the study file below has all."""
WIDE = 440.0  # points of an SVG's width: less than a page of paper, more than a column


class Picture(NamedTuple):
    """A figure of a page; `image` is SVG text, or the bytes of a file of PNG, WebP or SVG.

    name: of its place in the page; size: width and height in inches, where they are known.
    """

    title: str
    caption: str
    alt: str
    image: str | bytes
    name: str = ""
    size: tuple[float, float] = (0.0, 0.0)


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
    found = [StatedProblem(str(label), _described(raw)) for label, raw in list(labelled.items())[:MOST_PROBLEMS]]
    return [each for each in found if each.items]


def _described(stated: object) -> Markup:
    """What its kind shows of a problem; nothing of what no kind is for."""
    if isinstance(stated, str) and ":" in stated:
        return Markup("<li>The problem is made by {}.</li>").format(PurePath(stated.replace(chr(92), "/")).name)
    try:
        return Markup(kind_of(stated).describe(stated)) if isinstance(stated, (str, dict)) else Markup("")  # noqa: S704
    except ParameterError:
        return Markup("")


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
    environment.filters |= {"data_uri": _data_uri, "is_wide": _is_wide, "spoken": spoken}
    environment.globals |= known
    return environment.get_template(name)


def spoken(word: str) -> str:
    """A label or its value as the paper writes it."""
    return SPOKEN.get(word, word.replace("_", " "))


def script(name: str) -> Script:
    """One of the package's scripts."""
    text = "\n".join(line.strip() for line in _source(name).splitlines())  # an eighth of it is indentation
    return Script(Markup(text), base64.b64encode(hashlib.sha256(text.encode()).digest()).decode())  # noqa: S704


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _is_png(content: bytes) -> bool:
    return content.startswith(b"\x89PNG")


def _content(image: str | bytes) -> bytes:
    return image.encode() if isinstance(image, str) else image


def _data_uri(image: str | bytes) -> str:
    """The image inside the page.  As an <img> of its own, an SVG can neither run anything nor clash with another."""
    content = _content(image)
    form = "png" if _is_png(content) else "webp" if content.startswith(b"RIFF") else "svg+xml"
    return f"data:image/{form};base64,{base64.b64encode(content).decode()}"


def _is_wide(image: str | bytes) -> bool:
    """Test for an image so wide, or wider than high, that a narrow screen should scroll it rather than shrink it."""
    content = _content(image)
    if _is_png(content):  # the first chunk of a PNG begins with width and height
        return int.from_bytes(content[16:20]) > 2 * int.from_bytes(content[20:24])
    size = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', content)
    return size is not None and (float(size[1]) > 2 * float(size[2]) or float(size[1]) > WIDE)

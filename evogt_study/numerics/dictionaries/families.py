"""Families of features by name: one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evogt_study.numerics.registry import Registry

if TYPE_CHECKING:
    from evogt_study.numerics.dictionaries.base import Dictionary

# by their places, since their common base looks them up here
FAMILIES: Registry[type[Dictionary]] = Registry(
    "dictionary",
    "evogt_study.dictionaries",
    transnet=f"{__package__}.transnet:TransNet",
    gtransnet=f"{__package__}.gtransnet:GTransNet",
    gaussian_rf=f"{__package__}.gaussian_rf:GaussianRandomFeatures",
    uniform_elm=f"{__package__}.uniform_elm:UniformELM",
    legendre=f"{__package__}.legendre:Legendre",
    sine=f"{__package__}.sine:Sine",
)

"""Families of features by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evogt_study.registry import Registry

if TYPE_CHECKING:
    from evogt_study.numerics.dictionaries.base import Dictionary

FAMILIES: Registry[type[Dictionary]] = Registry("dictionary", "evogt_study.dictionaries")

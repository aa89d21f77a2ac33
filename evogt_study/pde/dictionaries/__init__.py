"""Dictionaries of prescribed features, by name: random tanh layers and tensor products."""

from evogt_study.pde.dictionaries.base import FAMILIES, Dictionary

__all__ = ["FAMILIES", "Dictionary"]

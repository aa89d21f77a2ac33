"""Dictionaries of prescribed features, by name: one file a family, and one line of `FAMILIES`."""

from evogt_study.numerics.dictionaries.base import Dictionary
from evogt_study.numerics.dictionaries.gaussian_rf import GaussianRandomFeatures
from evogt_study.numerics.dictionaries.gtransnet import GTransNet
from evogt_study.numerics.dictionaries.legendre import Legendre
from evogt_study.numerics.dictionaries.sine import Sine
from evogt_study.numerics.dictionaries.transnet import TransNet
from evogt_study.numerics.dictionaries.uniform_elm import UniformELM
from evogt_study.numerics.registry import Registry

FAMILIES: Registry[type[Dictionary]] = Registry(
    "dictionary",
    "evogt_study.dictionaries",
    ("transnet", TransNet),
    ("gtransnet", GTransNet),
    ("gaussian_rf", GaussianRandomFeatures),
    ("uniform_elm", UniformELM),
    ("legendre", Legendre),
    ("sine", Sine),
)

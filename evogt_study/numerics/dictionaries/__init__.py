"""Dictionaries of prescribed features, by name: one file a family, and one line of `FAMILIES`.

- `base`: the contract of a family, and of its features
- `first_layer`: tanh of affine functions, on tensor grids by products of exponentials
- `tanh_layers`: random layers of tanh, which four families have in common
- `transnet`: neurons at distances uniform in the ball's radius
- `gtransnet`: planes on both sides of the centre, and further layers
- `gaussian_rf`: Gaussian random features
- `uniform_elm`: the uniform extreme learning machine
- `tensor_products`: products of functions of one coordinate
- `legendre`: Legendre polynomials
- `sine`: Fourier sines
"""

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

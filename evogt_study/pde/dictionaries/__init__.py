"""Dictionaries of prescribed features, by name.

- `base` defines dictionaries and their features, and products of functions of one coordinate.
- `tanh_dictionaries` has random layers of tanh: transnet, gtransnet, gaussian_rf and uniform_elm.
- `tensor_dictionaries` has Legendre polynomials, Fourier sines, and Fourier series on periodic boxes.
"""

from evogt_study.pde.dictionaries.base import FAMILIES, Dictionary

__all__ = ["FAMILIES", "Dictionary"]

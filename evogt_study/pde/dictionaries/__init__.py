"""Dictionaries of prescribed features, by name.

- `base`: the contract of a dictionary and of its features, and products of functions of one coordinate
- `tanh_dictionaries`: random layers of tanh, which are transnet, gtransnet, gaussian_rf and uniform_elm
- `tensor_dictionaries`: Legendre polynomials, Fourier sines, and Fourier series on periodic boxes
"""

from evogt_study.pde.dictionaries.base import FAMILIES, Dictionary

__all__ = ["FAMILIES", "Dictionary"]

"""Dictionaries of prescribed features, by name.

- `base`: the contract of a dictionary and of its features; dictionaries by name
- `first_layer`: tanh of affine functions, on tensor grids by products of exponentials
- `tanh_layers`: random layers of tanh, the common part of four dictionaries
- `transnet`: neurons at distances uniform in the ball's radius
- `gtransnet`: planes on both sides of the centre, and further layers
- `gaussian_rf`: Gaussian random features
- `uniform_elm`: the uniform extreme learning machine
- `tensor_products`: products of functions of one coordinate
- `legendre`: Legendre polynomials
- `sine`: Fourier sines
- `fourier`: Fourier series on periodic boxes
"""

from evogt_study.pde.dictionaries.base import FAMILIES, Dictionary

__all__ = ["FAMILIES", "Dictionary"]

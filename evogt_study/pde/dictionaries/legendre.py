"""Tensor products of Legendre polynomials by total degree, without a seed.

With the boundary factor, the features span polynomials that vanish on the boundary.  So the error of an analytic
solution falls exponentially with the degree.
"""

from __future__ import annotations

import numpy as np

from evogt_study.pde.dictionaries.base import Dictionary, TensorProducts, by_total_degree
from evogt_study.pde.numerics import Array


class Legendre(Dictionary):
    """The first N orthonormal features psi_k(x) = prod_l sqrt(2 k_l + 1) P_{k_l}(2 x_l - 1) by total degree."""

    RANDOM = False
    HAS_CONSTANT = True

    def sample(self, seed: int, dimension: int) -> TensorProducts:
        return TensorProducts(by_total_degree(self.N, dimension), polynomials)


# The recurrence is stable on [-1, 1], while coefficients of high powers would cancel.
def polynomials(x: Array, count: int, order: int) -> Array:
    """Return the normalised polynomials of degrees below `count` and their derivatives, (order + 1, Q, count).

    The recurrences are (k + 1) P_{k+1} = (2k + 1) z P_k - k P_{k-1} and P_{k+1}' = P_{k-1}' + (2k + 1) P_k.
    """
    z, tables = 2.0 * x - 1.0, np.zeros((order + 1, count + 1, len(x)))
    tables[0, 0] = 1.0
    for k in range(count):
        before = tables[:, k - 1] if k else np.zeros_like(tables[:, 0])
        tables[0, k + 1] = ((2 * k + 1) * z * tables[0, k] - k * before[0]) / (k + 1)
        tables[1:, k + 1] = before[1:] + (2 * k + 1) * tables[:-1, k]
    scale = 2.0 ** np.arange(order + 1)[:, None, None] * np.sqrt(2.0 * np.arange(count) + 1.0)
    return np.asarray(tables[:, :count].swapaxes(1, 2) * scale)

"""The array type of the method layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.sparse.linalg import splu

Array = npt.NDArray[np.float64]


SparseMatrix = scipy.sparse.csc_array[np.float64]


def factorised(matrix: SparseMatrix) -> Callable[[Array], Array]:
    """b -> matrix^{-1} b.  A definite matrix needs no pivoting, so the order can be one for its symmetric pattern."""
    # minimum degree on A + A^T, and the diagonal as pivots: fill as of a Cholesky factorisation, which SciPy does not
    # have
    factor = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return lambda b: np.asarray(factor.solve(b))


def solver_of(matrix: scipy.sparse.sparray, *, symmetric: bool) -> Callable[[Array], Array]:
    """b -> matrix^{-1} b, as `factorised` where the matrix is symmetric and definite, else with pivoting."""
    columns = scipy.sparse.csc_array(matrix)
    if symmetric:
        return factorised(columns)
    factor = splu(columns)
    return lambda b: np.asarray(factor.solve(b))

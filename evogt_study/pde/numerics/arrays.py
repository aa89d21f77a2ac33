"""The array type of the method, and sparse linear systems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy  # imports scipy.sparse when it is first used: workers start sooner

Array = npt.NDArray[np.float64]


def solver_of(matrix: scipy.sparse.sparray, *, symmetric: bool) -> Callable[[Array], Array]:
    """Return the function b -> matrix^{-1} b by sparse LU, without pivoting if the matrix is symmetric and definite."""
    columns = scipy.sparse.csc_array(matrix)
    if symmetric:
        # Minimum degree on A + A^T and pivots on the diagonal: the fill of a Cholesky factorisation, which SciPy lacks.
        factor = scipy.sparse.linalg.splu(
            columns, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
    else:
        factor = scipy.sparse.linalg.splu(columns)
    return lambda b: np.asarray(factor.solve(b))

"""Two solvers of one's own for the problem that a study states: finite differences, and quadratic finite elements.

`problem` has the data as functions of NumPy arrays: `problem.diffusion(nodes, times)` and
`problem.source(nodes, times)` of shape (times, nodes), and `problem.initial(nodes)`; the source is derived from the
exact solution.  `validation.nodes` are the points at which the package judges what is returned as `u`.
"""

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import splu


def crank_nicolson(problem, validation, final_time, unknowns, dt):
    """Central differences on a uniform grid of (0, 1), and the trapezoidal rule at the midpoint of each step."""
    h, steps = 1 / (unknowns + 1), round(final_time / dt)
    x, between = h * np.arange(1, unknowns + 1)[:, None], h * (np.arange(unknowns + 1) + 0.5)[:, None]
    u = problem.initial(x)
    for middle in dt * (np.arange(steps) + 0.5):
        a = problem.diffusion(between, np.array([middle]))[0] / h**2
        A = sparse.diags([-a[1:-1], a[:-1] + a[1:], -a[1:-1]], [-1, 0, 1], format="csc")
        f = problem.source(x, np.array([middle]))[0]
        u = splu(sparse.eye(unknowns, format="csc") + dt / 2 * A).solve(u - dt / 2 * (A @ u) + dt * f)
    grid, values = np.linspace(0, 1, unknowns + 2), np.concatenate([[0], u, [0]])
    return {"u": np.interp(validation.nodes[:, 0], grid, values), "degrees_of_freedom": unknowns}


def quadratic_elements(problem, validation, final_time, unknowns, dt):
    """Quadratic finite elements of scikit-fem on a uniform mesh of (0, 1), and the same rule in time."""
    from skfem import Basis, BilinearForm, ElementLineP2, LinearForm, MeshLine

    basis = Basis(MeshLine(np.linspace(0, 1, (unknowns + 1) // 2 + 1)), ElementLineP2(), intorder=6)

    def at(function, w, t):
        return function(w.x[0].reshape(-1, 1), np.array([t]))[0].reshape(w.x[0].shape)

    mass = BilinearForm(lambda u, v, w: u * v).assemble(basis)
    stiffness = BilinearForm(lambda u, v, w: at(problem.diffusion, w, w.t) * u.grad[0] * v.grad[0])
    load = LinearForm(lambda v, w: at(problem.source, w, w.t) * v)
    inside, steps = basis.complement_dofs(basis.get_dofs()), round(final_time / dt)
    u, M = problem.initial(basis.doflocs.T)[inside], mass[inside][:, inside]
    for middle in dt * (np.arange(steps) + 0.5):
        K = stiffness.assemble(basis, t=middle)[inside][:, inside]
        f = load.assemble(basis, t=middle)[inside]
        u = splu((M + dt / 2 * K).tocsc()).solve(M @ u - dt / 2 * (K @ u) + dt * f)
    whole = basis.zeros()
    whole[inside] = u
    return {"u": basis.probes(validation.nodes.T) @ whole, "degrees_of_freedom": len(inside)}

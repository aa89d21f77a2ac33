"""A study of a function of one's own: the height of the Lorenz attractor."""

import numpy as np
from scipy.integrate import solve_ivp

import evogt_study as evs


def lorenz(rho, sigma=10.0, beta=8 / 3, seed=0):
    """Mean height of the Lorenz system from a random start, and whether it ends on the right wing."""
    start = np.random.default_rng(seed).normal(size=3)
    path = solve_ivp(
        lambda t, u: [sigma * (u[1] - u[0]), u[0] * (rho - u[2]) - u[1], u[0] * u[1] - beta * u[2]], (0, 5), start
    )
    return {"height": path.y[2].mean(), "right": bool(path.y[0, -1] > 0)}


if __name__ == "__main__":  # workers are processes: a script that starts them needs this line
    study = evs.Study(lorenz, axes={"rho": [20, 28], "seed": range(10)})
    print(evs.run(study).height.mean("seed").values)
    print(evs.run(study.replace(constants={"beta": 2.5})).height.mean("seed").values)

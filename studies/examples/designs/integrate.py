"""A method for the designs beside it: integral of sin(k x) over (0, 1) by random points, by a rule, or by both."""

import numpy as np


def integrate(rule="random", k=1.0, points=100, shift=0.5, width=0.0, seed=0):
    """Error of the mean over `points` nodes, random ones or midpoints with a shift, of sin(k x + width x^2)."""
    rng = np.random.default_rng(seed)
    nodes = {"random": rng.random(points), "midpoint": (np.arange(points) + shift) / points}[rule]
    fine = (np.arange(100_000) + 0.5) / 100_000
    return {"error": abs(np.sin(k * nodes + width * nodes**2).mean() - np.sin(k * fine + width * fine**2).mean())}

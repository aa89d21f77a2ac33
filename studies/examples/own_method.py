"""A user function for a study.  It returns named numbers or arrays for the values of its parameters."""

import numpy as np


def monte_carlo_pi(seed: int, points: int, antithetic: bool = False) -> dict:
    """Estimate pi from `points` random points in the unit square, and the running estimate."""
    rng = np.random.default_rng(seed)
    sample = rng.random((points, 2))
    if antithetic:
        half = sample[: points // 2]
        sample = np.stack([half, 1.0 - half], axis=1).reshape(-1, 2)
    inside = 4.0 * (np.sum(sample**2, axis=1) <= 1.0)
    checkpoints = np.linspace(0.1, 1.0, 10)
    counts = (checkpoints * len(inside)).astype(int)
    running = np.array([inside[:count].mean() for count in counts])
    return {
        "estimate": running[-1],
        "error": abs(running[-1] - np.pi) / np.pi,
        "running_estimate": ("checkpoint", running),
    }

"""Designs that are known by their points: Saltelli's blocks and Morris' trajectories, in the order that SALib has."""

from __future__ import annotations

import numpy as np

from evogt_study.inference.kernels import Array


def saltelli_block(points: Array) -> int:
    """Members of a block of a Saltelli design, 2 D + 2 or D + 2; zero for points (n, D) that are none.

    A block is A, AB_1 ... AB_D, then BA_1 ... BA_D where the design has second order, and B: AB_j is A with the j-th
    coordinate of B, and BA_j is B with that of A (Saltelli, Comput. Phys. Commun. 145, 2002).
    """
    count, dimension = points.shape
    for members in (2 * dimension + 2, dimension + 2):
        if dimension and count and count % members == 0 and _is_saltelli(points.reshape(-1, members, dimension)):
            return int(members)
    return 0


def _is_saltelli(blocks: Array) -> bool:
    dimension = blocks.shape[-1]
    first, last = blocks[:, 0], blocks[:, -1]
    if not (first != last).any():
        return False  # one point again and again
    for place in range(dimension):
        own = np.arange(dimension) == place
        if (blocks[:, 1 + place] != np.where(own, last, first)).any():
            return False
        if blocks.shape[1] > dimension + 2 and (blocks[:, 1 + dimension + place] != np.where(own, first, last)).any():
            return False
    return True


def is_morris(points: Array) -> bool:
    """Test for trajectories of D + 1 points (n, D), in each of which every coordinate changes once, one at a step."""
    count, dimension = points.shape
    if not dimension or not count or count % (dimension + 1):
        return False
    changed = np.diff(points.reshape(-1, dimension + 1, dimension), axis=1) != 0.0
    return bool((changed.sum(axis=1) == 1).all() and (changed.sum(axis=2) == 1).all())

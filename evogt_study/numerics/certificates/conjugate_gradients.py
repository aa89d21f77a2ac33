"""Preconditioned conjugate gradients for several symmetric systems at once, in the basis that makes P diagonal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evogt_study.numerics.arrays import Array


def conjugate_gradients(
    operator: Callable[[Array], Array], load: Array, diagonal: Array, tolerance: float, most: int
) -> tuple[Array, Array]:
    """x with A x = b, and what is left of b: A applied to (T, ...), b (T, ...), P (1 or T, ...).

    Ends where (b - A x, P^{-1} (b - A x)) is at most `tolerance` (b, P^{-1} b) in each of the T systems, or after
    `most` iterations.
    """
    axes = tuple(range(1, load.ndim))

    def product(left: Array, right: Array) -> Array:
        return np.asarray(np.sum(left * right, axis=axes, keepdims=True))

    def ratio(over: Array, under: Array) -> Array:
        # of a system that is solved exactly all is zero: it stays where it is while others go on
        return np.divide(over, under, out=np.zeros_like(over), where=under > 0.0)

    # each system has lengths of its own, in arrays with axes of one entry, so that they broadcast
    x, left = np.zeros_like(load), load.copy()
    direction = left / diagonal
    rho = product(left, direction)
    enough = tolerance * rho
    for _ in range(most):
        if np.all(rho <= enough):
            break
        image = operator(direction)
        length = ratio(rho, product(direction, image))
        x += length * direction
        left -= length * image
        # the preconditioner, which the basis makes diagonal
        corrected = left / diagonal
        rho, before = product(left, corrected), rho
        direction = corrected + ratio(rho, before) * direction
    return x, left

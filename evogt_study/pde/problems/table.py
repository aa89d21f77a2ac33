"""The shape of a problem in formulas in a study file, ``[problem]``."""

from __future__ import annotations

from typing import Any

from evogt_study.study.model import Table


class ProblemTable(Table):
    """A problem stated in the study file, ``[problem]``."""

    dimension: Any
    """Number of directions in space: 1, 2 or 3."""
    exact: str | None = None
    """Exact solution, from which the source and the initial value are derived."""
    initial: str | None = None
    """Initial value, where there is no `exact`."""
    source: str | None = None
    """Source term f, where there is no `exact`; zero if left out."""
    domain: dict[str, Any] | None = None
    """Box, disk, polygon or mesh; the unit cube if left out."""
    diffusion: str | list[Any] = "1"
    """Diffusion: a formula, a list of one for each direction, or a symmetric matrix of formulas."""
    advection: list[Any] | None = None
    """Velocity b, a formula for each direction."""
    reaction: str | None = None
    """Reaction g, a formula also in `u`, the solution."""
    boundary: dict[str, Any] = {}  # noqa: RUF012  # pydantic gives each table a copy
    """Faces of a box that are periodic, or have a flux or a transfer."""
    lifting: str | None = None
    """Boundary values, extended into the domain; zero if left out."""
    potential: str | None = None
    """F(u) of a gradient flow, with -F'(u) in place of advection and reaction."""

"""A solution stored as the coefficients of its features, which can be evaluated anywhere without its problem.

    u(x, t) = u_b(x, t) + D(x) psi(x) . c(t),    c = T_r alpha

The dictionary gives the features psi again, and the lifting u_b is a formula.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ParameterError, ProblemError, ResultError, shorten
from evogt_study.pde.dictionaries import FAMILIES
from evogt_study.pde.domains import Domain, domain_content, domain_from
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.retained_space import trial_values
from evogt_study.pde.numerics.arrays import Array
from evogt_study.pde.pipeline import Solution
from evogt_study.pde.problems.expressions import space_time_function
from evogt_study.pde.problems.terms import parse_term
from evogt_study.storage.hdf5 import HDF5_LOCK

_BY_FUNCTION = "a function"
_PARTS = ("domain", "features", "feature_seed", "lifting", "lifting_parameters")
"""Attributes that `StoredSolution` needs."""
COEFFICIENTS = "feature_coefficients"
"""Variable of a file that holds the coefficients."""


@dataclass(frozen=True, eq=False)
class StoredSolution:
    """Coefficients c (S, N) at `times` (S,).  `attributes` name the features, the domain and the lifting."""

    times: Array
    coefficients: Array
    attributes: Mapping[str, Any]
    coarser: None = None

    @cached_property
    def digest(self) -> str:
        stored = json.dumps({name: str(self.attributes[name]) for name in _PARTS if name in self.attributes})
        # 80 bits: among a million solutions two agree by chance in 4e-13
        return blake2b(self.coefficients.tobytes() + self.times.tobytes() + stored.encode(), digest_size=10).hexdigest()

    @property
    def key(self) -> Hashable:
        return "stored", self.digest

    def content(self) -> dict[str, str]:
        return {"stored": self.digest}

    @property
    def label(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"stored({self.digest})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredSolution) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def domain(self) -> Domain:
        return domain_from(json.loads(self.attributes["domain"]))

    # compared by content, since the domain was made from the file
    def check(self, problem: Problem, times: Array) -> None:
        """Raise ProblemError if it cannot be a reference of `problem` at `times`."""
        if domain_content(self.domain) != domain_content(problem.domain):
            raise ProblemError(f"`reference` must be on the problem's domain, got a run on {self.domain}")
        self._places(times)

    def evaluate(self, nodes: Array) -> Array:
        """Return values at points of the domain and all times, (P, d) -> (S, P)."""
        content = json.loads(self.attributes["features"])
        family = content.pop("family")
        # JSON has lists in place of the tuples that a dictionary is identified by
        given: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in content.items()
        }
        features = self.domain.features(
            FAMILIES[family](**{"family": family, **given}), int(self.attributes["feature_seed"])
        )
        values = self.coefficients @ trial_values(self.domain, features, nodes).T
        return np.asarray(values + self._lifted(nodes))

    def __call__(self, nodes: Array, times: Array) -> Array:
        """Return values at some of its times, (Q, d) and (T,) -> (T, Q).  Raises ProblemError for any other time."""
        return np.asarray(self.evaluate(nodes)[self._places(times)], dtype=np.float64)

    def _places(self, times: Array) -> npt.NDArray[np.intp]:
        places = np.abs(self.times - times[:, None]).argmin(axis=1)
        apart = np.abs(self.times[places] - times)
        # 1e-9 of rounding, as `TimeGrid.of` admits in times that are written in decimals
        if not (apart <= 1e-9 * float(self.times[-1])).all():
            got = f"none at t = {float(times[np.argmax(apart)]):.6g}"
            raise ProblemError(f"`reference` must have been saved at the observed times of the run, got {got}")
        return np.asarray(places, dtype=np.intp)

    def _lifted(self, nodes: Array) -> Array | float:
        formula = self.attributes.get("lifting")
        if formula is None:
            return 0.0
        if formula == _BY_FUNCTION:
            raise ResultError("the lifting must be a formula for a stored solution to be evaluated, got a function")
        expression = parse_term(formula, "lifting", self.domain.dimension)
        values = json.loads(self.attributes["lifting_parameters"])
        return space_time_function(expression, values)(nodes, self.times)


def describe_solution(solution: Solution) -> dict[str, Any]:
    """Return the attributes of a `StoredSolution`."""
    problem, run = solution.problem, solution.discretisation
    attributes = {
        "problem": problem.name,
        "domain": json.dumps(domain_content(problem.domain, whole=True)),
        "features": json.dumps(run.dictionary.content()),
        "feature_seed": run.seed,
    }
    if problem.lifting is not None:
        attributes["lifting"] = problem.lifting.formula or _BY_FUNCTION
        attributes["lifting_parameters"] = json.dumps(dict(problem.parameters))
    return attributes


def feature_coefficients(solution: Solution) -> Array:
    """Return c = T_r alpha at the saved times, (S, N)."""
    saved = solution.trajectory.coefficients[solution.discretisation.grid.saved_positions]
    # of the features: another machine finds T_r only up to signs, and rotations where singular values cluster
    return np.asarray(saved @ solution.space.transform.T)


def resolve_reference(raw: Any, folder: Path) -> Any:
    """Return the reference, or the parts of the run if it names a file relative to `folder`."""
    return read_stored_run(folder / raw) if isinstance(raw, str) and raw.endswith(".nc") else raw


def read_stored_run(path: Path) -> dict[str, Any]:
    """Return times (S,), coefficients (S, N) and attributes.  Raises ParameterError if the file holds none."""
    import netCDF4  # here: only the client reads the file, and workers import no NetCDF

    try:
        with HDF5_LOCK, netCDF4.Dataset(path) as file:
            given = {name: file.getncattr(name) for name in file.ncattrs()}
            attributes = {k: v.item() if isinstance(v, np.generic) else v for k, v in given.items()}
            times, coefficients = (np.asarray(file[name][:], dtype=float) for name in ("time", COEFFICIENTS))
    # netCDF4 raises IndexError for a variable that is not there
    except (OSError, IndexError) as error:
        raise ParameterError(
            "reference", f"a file of what `solve` returned ({shorten(str(error))})", str(path)
        ) from None
    return {"times": times, "coefficients": coefficients, "attributes": attributes}

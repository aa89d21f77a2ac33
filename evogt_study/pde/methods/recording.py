"""Records of solutions, with scalars, certificates, histories, and fields on a uniform grid."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, TypeVar

import numpy as np

from evogt_study.errors import ProblemError
from evogt_study.formulas import SPACE
from evogt_study.methods.code import Output
from evogt_study.pde.certificates.certify import (
    BY_EXACT,
    BY_REFERENCE,
    CERTIFICATES,
    SpectralReference,
    certify,
    find_reference,
)
from evogt_study.pde.galerkin.problem import Problem
from evogt_study.pde.galerkin.validation import energy_history, norm_history, relative_errors
from evogt_study.pde.methods.declarations import VARIABLES, measure_reach
from evogt_study.pde.numerics import Array, Quadrature
from evogt_study.pde.pipeline import NORMS, Share, Solution
from evogt_study.schema.records import Datum, Record
from evogt_study.schema.values import hash_canonical_json
from evogt_study.storage.arrays import load_or_compute

T = TypeVar("T")

HISTORIES = (
    "error_history", "energy_history", "norm_history", "free_energy_history", "coefficients", "reference_coefficients",
    "singular_values",
)  # fmt: skip
"""Names of the arrays that a record can contain without a uniform grid."""
STAGE_SECONDS = "stage_seconds"
RECORDABLE = (*HISTORIES, "field", *NORMS, STAGE_SECONDS, *CERTIFICATES)
OFFLINE = ("trial functions", "weighted SVD", "retained space", "diffusion check", "nodal data", "Galerkin system")
ONLINE = ("trajectory",)


class StageClock:
    """Function of the type `Share` that measures the CPU seconds of each stage without its inner stages."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.seconds: dict[str, float] = dict.fromkeys((*OFFLINE, *ONLINE), 0.0)
        self._inside = [0.0]

    def __call__(self, stage: str, key: Hashable, compute: Callable[[], T], /) -> T:
        """Return the result of `stage`, and measure the time if the stage is computed."""

        def measure() -> T:
            self._inside.append(0.0)
            start = time.process_time()
            try:
                return compute()
            finally:
                spent = time.process_time() - start
                self.seconds[stage] = self.seconds.get(stage, 0.0) + spent - self._inside.pop()
                self._inside[-1] += spent

        return self.share(stage, key, measure)

    def add_to(self, record: Record) -> Record:
        """Return the record with the seconds of each stage and the sums over offline and online stages."""
        seconds = np.array([self.seconds[name] for name in (*OFFLINE, *ONLINE)])
        parts = {"offline_seconds": seconds[: len(OFFLINE)].sum(), "online_seconds": seconds[len(OFFLINE) :].sum()}
        variables = make_scalars(parts)
        variables[STAGE_SECONDS] = Datum(("stage",), seconds)
        names = Datum(("stage",), np.array((*OFFLINE, *ONLINE)))
        return Record({**record.variables, **variables}, {**record.coordinates, "stage": names})


def make_scalars(scalars: Mapping[str, Any]) -> dict[str, Datum]:
    """Return data for a record from single numbers."""
    return {name: Datum((), np.asarray(value)) for name, value in scalars.items()}


def select_arrays(output: Output) -> tuple[str, ...]:
    """Return the names in `output.record` except the certificates and the seconds of stages."""
    return tuple(name for name in output.record if name not in CERTIFICATES and name != STAGE_SECONDS)


def make_record(solution: Solution, output: Output, certified: Mapping[str, Datum]) -> Record:
    """Return the record of a solution with the scalars, the certificates and the arrays in `output.record`."""
    space, trajectory, system, problem = solution.space, solution.trajectory, solution.system, solution.problem
    energies = trajectory.energies if problem.potential is not None else None
    known: dict[str, float] = {"error": solution.errors[-1]} if solution.has_final_error else {}
    known |= {
        "initial_error": solution.errors[0],
        "rank": space.rank,
        "retained_condition": space.condition,
        "raw_resolution": solution.svd.raw_resolution,
        "mass_defect": space.mass_defect,
        "quadrature_defect": solution.quadrature_defect,
        **measure_reach(solution.discretisation.dictionary, problem.dimension),
    }
    if solution.coefficient_error is not None:
        known["coefficient_error"] = solution.coefficient_error
    if solution.cross_grid is not None:
        known["mass_defect_cross_grid"] = solution.cross_grid.mass
        known["stiffness_defect_cross_grid"] = solution.cross_grid.stiffness
    if solution.reference_error is not None:
        known["reference_error"] = solution.reference_error
        if solution.has_final_error and solution.errors[-1] > 0.0:
            known["reference_share"] = solution.reference_error / solution.errors[-1]
    known |= {**({} if energies is None else measure_energies(energies)), **solution.norms}
    wanted, grid = select_arrays(output), solution.discretisation.grid
    saved, times = grid.saved_positions, grid.saved_times
    makers: dict[str, Callable[[], Array | None]] = {
        "error_history": lambda: solution.errors[saved] if solution.has_final_error else None,
        "energy_history": lambda: energy_history(system, trajectory)[saved],
        "norm_history": lambda: norm_history(system, trajectory)[saved],
        "free_energy_history": lambda: None if energies is None else energies[list(grid.saved)],
        "coefficients": lambda: trajectory.coefficients[saved],
        "reference_coefficients": lambda: solution.reference_state,
        "singular_values": lambda: solution.svd.singular_values,
    }
    made = {name: make() for name, make in makers.items() if name in wanted}
    histories = {name: Datum(VARIABLES[name].dims, values) for name, values in made.items() if values is not None}
    variables = {**make_scalars(known), **certified, **histories}
    coordinates = {"time": Datum(("time",), times)} if wanted else {}
    if "field" in wanted:
        data, axes = sample_fields(lambda nodes: solution.evaluate(nodes)[saved], problem, times, output.grid)
        variables, coordinates = variables | data, coordinates | axes
    return Record(variables, coordinates)


def check_norms(problem: Problem, wanted: Collection[str]) -> None:
    """Raise ProblemError if `wanted` has error_h1 and the gradient of the exact solution is unknown."""
    if "error_h1" in wanted and problem.exact_gradient is None:
        raise ProblemError("`record` must leave out error_h1 for a problem without `exact` as a formula")


def measure_energies(energies: Array) -> dict[str, float]:
    """Return the decrease of the energy in percent and the largest increment of the energy in one step."""
    scalars = {"energy_increment": float(np.diff(energies).max())}
    if energies[0] == 0.0:  # the percentage is undefined
        return scalars
    return {"energy_drop_percent": float(100.0 * (energies[0] - energies[-1]) / energies[0]), **scalars}


def measure_errors(
    problem: Problem, rule: Quadrature, values: Array, times: Array, wanted: Collection[str],
    saved: list[int] | slice = slice(None),
) -> tuple[dict[str, Datum], dict[str, Datum]]:  # fmt: skip
    """Return the errors of values at the nodes (S, Q), the `wanted` arrays, and their coordinates except the times."""
    variables, coordinates = dict[str, Datum](), dict[str, Datum]()
    if problem.exact is not None:
        errors = relative_errors(values, problem.exact(rule.nodes, times), rule.weights)
        variables = make_scalars({"error": errors[-1]})
        if "error_history" in wanted:
            variables["error_history"] = Datum(VARIABLES["error_history"].dims, errors[saved])
    if "validation_values" in wanted:
        variables["validation_values"] = Datum(("node",), values[-1])
        coordinates["weight"] = Datum(("node",), rule.weights)
    return variables, coordinates


# Evaluate once at all nodes, because the features cost most of the time and do not depend on time.
def sample_fields(
    evaluate: Callable[[Array], Array], problem: Problem, times: Array, points: int
) -> tuple[dict[str, Datum], dict[str, Datum]]:
    """Return the numerical and the exact solution on a uniform grid with the boundary, and the coordinates.

    The grid has `points` per direction.  The function `evaluate` maps nodes (P, d) to values at `times` (S, P).  The
    fields are NaN outside of the domain, so a NaN of the numerical solution becomes infinity.
    """
    axes = problem.domain.axes(points)
    nodes = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=1)
    space, inside = SPACE[: len(axes)], problem.domain.contains(nodes)
    dims, shape = ("time", *space), (len(times), *map(len, axes))

    def on_grid(values: Array) -> Datum:
        whole = np.full((len(times), len(nodes)), np.nan)
        whole[:, inside] = values
        return Datum(dims, whole.reshape(shape))

    values = evaluate(nodes[inside])
    data = {"field": on_grid(np.where(np.isnan(values), np.inf, values))}
    if problem.exact is not None:
        data["exact_field"] = on_grid(problem.exact(nodes[inside], times))
    return data, {name: Datum((name,), along) for name, along in zip(space, axes, strict=True)}


def compute_certificates(solution: Solution, wanted: Collection[str], share: Share, identity: str) -> dict[str, Datum]:
    """Return the certificates in `wanted` for a solution.  The text `identity` identifies the problem.

    One worker computes the spectral reference of a problem for all workers.
    """
    if not wanted:
        return {}
    problem, final_time = solution.problem, solution.discretisation.grid.final_time
    needed = any(name in BY_REFERENCE or (name in BY_EXACT and problem.exact is None) for name in wanted)
    reference = share_reference(problem, final_time, share, identity) if needed else None
    return make_scalars(certify(solution, wanted, share, identity, reference))


def share_reference(problem: Problem, final_time: float, share: Share, identity: str) -> SpectralReference:
    """Return the spectral reference of the problem that `identity` identifies."""

    def computed() -> SpectralReference:
        name = hash_canonical_json(["spectral reference", identity, final_time])
        packed = load_or_compute(name, lambda: find_reference(problem, final_time).pack())
        return SpectralReference.unpack(packed, problem.domain)

    return share("spectral reference", (identity, final_time), computed)

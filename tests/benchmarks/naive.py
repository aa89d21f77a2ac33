"""The whole paper by the line-by-line transcription of its algorithms, one run at a time.

    python tests/benchmarks/naive.py [STUDIES]... [--limit N]

What a researcher would write with NumPy and SciPy: tests/specification.py and specification_experiments.py, a loop over
the cases, and nothing kept from one run to the next: each run samples its dictionary, computes its quadrature nodes and
its SVD, evaluates its source at every step, and Allen-Cahn solves its reference, anew.  Sources are differentiated by
SymPy and made into NumPy functions once for each set of a problem's parameters.  The pilots' runs choose gamma.

The package is used to enumerate the cases, and its results (data/results) to compare with.  Prints for each study the
runs, seconds (of all threads, and of the clock), what of them the cross-grid assessment and references took, and the
largest relative difference of the errors.  Exit code 1: a number differs.  Without STUDIES: all of studies/paper but
allen_cahn_reference, the refinement study of the finite-difference reference.  --limit N: N cases of each phase, evenly
spaced, and gamma as the shipped result has it.
"""

import argparse
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import sympy
import xarray as xr

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import specification_experiments as experiments  # noqa: E402
from specification import Problem, Settings, evolve, trial_values  # noqa: E402

from evogt_study.methods.protocol import Output  # noqa: E402
from evogt_study.schema.values import text_label  # noqa: E402
from evogt_study.study.case_space import ParameterTable  # noqa: E402
from evogt_study.study.plan import provisional_plans, study_plan  # noqa: E402
from evogt_study.study.study import Study  # noqa: E402

NOT_COUNTED = "allen_cahn_reference"
X, T, U = sympy.symbols("x y z"), sympy.Symbol("t"), sympy.Symbol("u")

RTOL = 1e-6
ATOL = {  # what rounding, magnified by sqrt(kappa_ret) at most, may change
    "error": 1e-11,
    "error_history": 1e-11,
    "initial_error": 1e-11,
    "coefficient_error": 1e-11,
    "field": 1e-9,
    "energy_increment": 1e-11,
    "mass_defect_cross_grid": 1e-8,
    "stiffness_defect_cross_grid": 1e-8,
}


# --- problems: the study's formulas as NumPy functions --------------------------------------------------------------


def formula(text, values):
    expression = sympy.sympify(text)
    given = {name: sympy.Rational(str(values[str(name)])) for name in expression.free_symbols if str(name) in values}
    return expression.subs(given)


def function(expression, dimension):
    """Of points (Q, d) and a time; common factors are evaluated once, as one would write it by hand."""
    compiled = sympy.lambdify((*X[:dimension], T), expression, "numpy", cse=True)
    return lambda x, t: np.broadcast_to(compiled(*x.T, t), len(x))


def formulas_of(statement, values):
    """a, u or u_0, and f = u_t - div(a grad u)."""
    a, u = formula(statement.diffusion, values), formula(statement.exact or statement.initial, values)
    source = sympy.S.Zero
    if statement.exact is not None:
        source = sympy.diff(u, T) - sum(sympy.diff(a * sympy.diff(u, x), x) for x in X[: statement.dimension])
    return a, u, source


@lru_cache
def linear_problem(statement, parameters):
    a, u, source = formulas_of(statement, dict(parameters))
    d = statement.dimension
    exact = function(u, d)
    return Problem(d, function(a, d), function(source, d), exact, lambda x: exact(x, 0.0), steady=not a.has(T))


@lru_cache
def heat_problem(statement, parameters):
    a, u, _ = formulas_of(statement, dict(parameters))
    exact, initial_xx = function(u, 1), function(sympy.diff(u.subs(T, 0), X[0], 2), 1)
    return experiments.Heat(float(a), lambda x: exact(x, 0.0), lambda x: initial_xx(x, 0.0), exact)


@lru_cache
def gradient_flow(statement, stabilization):
    potential = sympy.sympify(statement.potential)
    initial = function(sympy.sympify(statement.initial), 2)
    return experiments.GradientFlow(
        float(sympy.sympify(statement.diffusion)),
        lambda x: initial(x, 0.0),
        sympy.lambdify(U, potential, "numpy"),
        sympy.lambdify(U, sympy.diff(potential, U), "numpy"),
        stabilization,
    )


def parameters_of(values):
    return tuple((name, values[name]) for name in ("epsilon", "k", "modulation", "final_time") if name in values)


# --- one case -> its numbers ----------------------------------------------------------------------------------------

parts = Counter()
"""Processor seconds of what can be told apart."""


@contextmanager
def part(name):
    started = time.process_time()
    yield
    parts[name] += time.process_time() - started


def rule(value):
    return value.rule, value.points


def settings(values, inputs):
    """`inputs` is the dictionary's dimension."""
    return Settings(
        dictionary=values["dictionary"],
        seed=values["seed"],
        features=values["N"],
        gamma=values["gamma"],
        final_time=values["final_time"],
        dt=values.get("dt", values["final_time"]),
        assembly=rule(values["quadrature"]) if "quadrature" in values else ("", 0),
        validation=rule(values["validation"]),
        radius=values["radius"],
        centre=(values["centre"],) * inputs,
        tau=values.get("tau", 0.0),
        hidden_widths=(values["N1"],) if values["dictionary"] == "gtransnet" else (),
        delta=values["delta"],
    )


def saved_steps(output, s):
    """The steps whose errors the study keeps: so many of equal distance, or the first and the last."""
    return np.linspace(0, round(s.final_time / s.dt), output.times if isinstance(output.times, int) else 2).astype(int)


def evolution(spec, values):
    statement, output = spec.problem, spec.output or Output()
    s = settings(values, statement.dimension)
    if statement.potential is not None:
        return allen_cahn(statement, output, values, s)
    p = linear_problem(statement, parameters_of(values))
    known = statement.exact is not None
    r = evolve(p, replace(s, recorded=tuple(saved_steps(output, s).tolist()) if known else (0,)))
    found = {"initial_error": r.initial_error, "rank": r.rank, "retained_condition": r.retained_condition}
    if known:
        found["error"] = r.error
    histories = {"error_history": r.errors, "energy_history": r.energies, "norm_history": r.norms}
    found |= {name: history for name, history in histories.items() if name in output.record}
    if "field" in output.record:
        along = np.linspace(0, 1, output.grid)
        x = np.stack([axis.ravel() for axis in np.meshgrid(along, along, indexing="ij")], axis=1)
        found["field"] = trial_values(s, r.space.layers, x) @ r.space.transform @ r.coefficients
    if "assessment" in values:
        with part("cross-grid"):
            mass, stiffness = experiments.cross_grid_defects(p, s, r.space, rule(values["assessment"]))
        found |= {"mass_defect_cross_grid": mass, "stiffness_defect_cross_grid": stiffness}
    if "coefficient_reference" in values:
        with part("reference"):
            reference = coefficient_reference(p, s, r.space, values)
        difference = np.linalg.norm(r.coefficients - reference) / np.linalg.norm(reference)
        found["coefficient_error"] = difference
    return found


def coefficient_reference(p, s, space, values):
    if values["coefficient_reference"] == "eigendecomposition":
        return experiments.coefficients_by_eigendecomposition(p, s, space)
    tolerances = values.get("coefficient_rtol", 1e-12), values.get("coefficient_atol", 1e-14)
    return experiments.coefficients_by_dop853(p, s, space, *tolerances, values.get("coefficient_max_step", np.inf))


def allen_cahn(statement, output, values, s):
    p = gradient_flow(statement, values["stabilization"])
    with part("reference"):
        reference = experiments.finite_differences(p, values["reference_points"], s.final_time, s.dt)
    r = experiments.evolve_flow(p, s, reference)
    return {
        "error": r.error,
        "initial_error": r.initial_error,
        "rank": r.rank,
        "energy_drop_percent": 100 * (r.energies[0] - r.energies[-1]) / r.energies[0],
        "energy_increment": np.diff(r.energies).max(),
        "free_energy_history": r.energies[saved_steps(output, s)],
    }


def p1_fem(spec, values):
    p, points = linear_problem(spec.problem, parameters_of(values)), values["degree"] // 2 + 1
    error, initial_error = experiments.p1_finite_elements(
        p, values["unknowns"], points, values["final_time"], values["dt"], rule(values["validation"])
    )
    return {"error": error, "initial_error": initial_error}


def regression(spec, values):
    p, s = heat_problem(spec.problem, parameters_of(values)), settings(values, 2)
    found = experiments.space_time_regression(p, s, values["points"], values["levels"], values["ridge"])
    return dict(zip(("error", "initial_error", "scaled_condition"), found, strict=True))


METHODS = {"evolution": evolution, "p1_fem": p1_fem, "space_time_regression": regression}


# --- studies --------------------------------------------------------------------------------------------------------


class Comparison:
    """Numbers beside those of a shipped result."""

    def __init__(self):
        self.runs, self.largest, self.differing = 0, 0.0, []

    def add(self, found, data, case, size):
        self.runs += 1
        for name, value in found.items():
            shipped = data[name].values.reshape(size, -1)[case.index]
            difference = np.abs(np.ravel(value) - shipped)
            if name in ("error", "coefficient_error"):
                self.largest = max(self.largest, float((difference / np.abs(shipped)).max()))
            if not np.all(difference <= ATOL.get(name, 0.0) + RTOL * np.abs(shipped)):
                self.differing.append(f"{name} of case {case.index}: {np.ravel(value)[:4]}, not {shipped[:4]}")


def some(plan, limit):
    cases = list(plan.cases())
    if limit is None or limit >= len(cases):
        return cases
    return [cases[i] for i in np.linspace(0, len(cases) - 1, limit).astype(int)]


def choice_of(study, plan, errors, shipped):
    """gamma of the least mean over the pilot's seeds, the smaller of equals; the shipped one where runs are missing."""
    assert plan.space.names[-1] == "seed"
    means = errors.reshape(plan.space.shape).mean(axis=-1)
    table = {}
    for at in np.ndindex(means.shape[:-1]):
        values = (axis.values[i] for axis, i in zip(plan.space.axes, at, strict=False))
        key = tuple(text_label(value) for value in values)
        candidates = study.pilot.candidates_at(key)
        best = min(zip(means[at], candidates, strict=False))[1]
        table[key] = (float(shipped[at]),) if np.isnan(means[at][: len(candidates)]).any() else best
    return ParameterTable(study.pilot.parameters, study.pilot.by, table)


def compute(name, limit=None):
    """All cases of a study, its pilot's first; a Comparison."""
    study = Study.from_file(ROOT / "studies" / "paper" / f"{name}.toml")
    shipped, compared, choice = ROOT / "data" / "results" / f"{name}.nc", Comparison(), []
    with xr.open_dataset(shipped) as data:
        if study.pilot is not None:
            pilot, _ = provisional_plans(study)
            errors = np.full(pilot.space.size, np.nan)
            with xr.open_dataset(shipped, group="run_pilot") as pilot_data:
                loaded = pilot_data.load()
            for case in some(pilot, limit):
                found = METHODS[pilot.spec.method](pilot.spec, case.values)
                errors[case.index] = found["error"]
                compared.add(found, loaded, case, pilot.space.size)
            (parameter,) = study.pilot.parameters
            choice = [choice_of(study, pilot, errors, data[parameter].values)]
            if not np.array_equal([value for (value,) in choice[0].table.values()], data[parameter].values.ravel()):
                compared.differing.append(f"{parameter} chosen: {choice[0].table}")
        plan, loaded = study_plan(study, *choice), data.load()
        for case in some(plan, limit):
            compared.add(METHODS[plan.spec.method](plan.spec, case.values), loaded, case, plan.space.size)
    return compared


def main():
    parser = argparse.ArgumentParser(description="The whole paper by a transcription of its algorithms.")
    parser.add_argument("studies", nargs="*")
    parser.add_argument("--limit", type=int, help="cases of each phase of a study")
    options = parser.parse_args()
    every = sorted(path.stem for path in (ROOT / "studies" / "paper").glob("*.toml"))
    totals, failed = Counter(), False
    print(f"{'study':24} {'runs':>5} {'cpu s':>8} {'wall s':>8} {'cross-grid':>10} {'reference':>10}  error differs by")
    for name in options.studies or [name for name in every if name != NOT_COUNTED]:
        parts.clear()
        wall, processor = time.perf_counter(), time.process_time()
        compared = compute(name, options.limit)
        line = Counter(runs=compared.runs, cpu=time.process_time() - processor, wall=time.perf_counter() - wall)
        line.update(parts)
        totals.update(line)
        print(row(name, line), f" {compared.largest:.1e}", flush=True)
        for difference in compared.differing[:5]:
            print(f"    {difference}")
        failed = failed or bool(compared.differing)
    print(row("total", totals))
    return int(failed)


def row(name, line):
    parted = f"{line['cross-grid']:10.2f} {line['reference']:10.2f}"
    return f"{name:24} {line['runs']:5} {line['cpu']:8.2f} {line['wall']:8.2f} {parted}"


if __name__ == "__main__":
    sys.exit(main())

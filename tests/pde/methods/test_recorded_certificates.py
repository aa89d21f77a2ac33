"""Certificates that a study records: by name, with one reference a problem, and refused where there are none."""

import numpy as np
import pytest

from evogt_study.errors import DivergedError
from evogt_study.pde.methods.problem_method import check_finite
from evogt_study.schema.records import Datum, Record
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

TEXT = """
name = "certified"
[problem]
dimension = 1
{problem}
[axes]
seed = {seeds}
[constants]
dictionary = "transnet"
N = 20
gamma = 3
quadrature = 60
validation = 80
final_time = 0.1
dt = 0.005
{more}
[output]
record = {record}
"""
KNOWN = 'exact = "exp(-t)*sin(2*pi*x)"\ndiffusion = "1 + x/2"'
UNKNOWN = 'initial = "sin(2*pi*x)"\nsource = "x*(1 - x)"\ndiffusion = "1/10"'
FLOW = 'initial = "sin(2*pi*x)"\ndiffusion = "1/10"\npotential = "(u**2 - 1)**2/4"'


def study(record, problem=KNOWN, more="", seeds=(0, 1, 2)):
    return Study.from_text(TEXT.format(problem=problem, record=list(record), more=more, seeds=list(seeds)))


def records(text_study):
    kept = {}

    def share(stage, key, compute):
        if (stage, key) not in kept:
            kept[stage, key] = compute()
        return kept[stage, key]

    plan = plan_study(text_study)[-1]
    found = [plan.method.bind(case.values).run(share).variables for case in plan.cases()]
    return [{name: float(datum.values) for name, datum in record.items()} for record in found], kept


def test_a_run_without_an_upper_bound_has_its_other_numbers():
    """A pulse in time that no rule sees; an error that is infinite is another matter."""
    pulse = 'exact = "sin(pi*x)*(1 + exp(-((t - 1/20)*10000)**2))"\ndiffusion = "1"'
    (run,), _ = records(study(["error_bound", "error_lower", "error_upper"], pulse, seeds=[0]))
    assert (run["error_bound"], run["error_lower"], run["error_upper"]) == (np.inf, 0.0, np.inf)
    assert 0.0 < run["error"] < np.inf
    for name, value in (("error", np.inf), ("error_upper", np.nan)):
        with pytest.raises(DivergedError, match=f"`{name}` is {value}"):
            check_finite(Record({name: Datum((), np.array(value))}, {}))


def test_one_reference_for_all_seeds():
    found, kept = records(study(["error_lower", "error_upper", "error_estimate", "error_bound"]))
    assert len(found) == 3
    assert sum(stage == "spectral reference" for stage, _ in kept) == 1
    for run in found:
        assert run["error_lower"] <= run["error"] <= run["error_upper"] <= 1.1 * run["error_lower"]
        assert run["error"] / 1.5 < run["error_estimate"] < 1.5 * run["error"]
        parts = [run[f"error_bound_{part}"] for part in ("initial", "residual", "estimated")]
        assert run["error_bound"] == pytest.approx(np.linalg.norm(parts))
        assert run["error"] < run["error_bound"]


def test_without_exact_solution():
    found, _ = records(study(["error_lower", "error_upper", "error_full_space", "error_retained"], UNKNOWN))
    for run in found:
        assert "error" not in run
        assert 0.0 < run["error_lower"] < run["error_upper"] < 1.01 * run["error_lower"]
        assert run["error_full_space"] < run["error_retained"] < run["error_upper"]


def test_other_numbers_and_keys_stay():
    with_none, with_bound = study([]), study(["error_bound"])
    (plain, *_), _ = records(with_none)
    (bounded, *_), _ = records(with_bound)
    assert plain == {name: value for name, value in bounded.items() if not name.startswith("error_")}


def test_an_indicator_of_a_potential():
    more = 'time_integrator = "stabilized_semi_implicit"\nstabilization = 2'
    found, _ = records(study(["error_indicator"], FLOW, more))
    assert all(np.isfinite(run["error_indicator"]) for run in found)

"""The results in data/results: of these studies, by this code, with the published numbers in them."""

import json
from pathlib import Path

import numpy as np
import pytest

from evogt_study.paper.published import Verdict, judge_numbers, read_known_differences, read_published
from evogt_study.paper.report import summarise
from evogt_study.results.netcdf import read_result
from evogt_study.results.provenance import read_versions
from evogt_study.schema.records import VARIABLE
from evogt_study.schema.values import to_canonical, to_string
from evogt_study.schema.variables import Status, to_status
from evogt_study.study.case_space import ParameterTable
from evogt_study.study.plan import Plan, plan_phase, plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

ROOT = Path(__file__).parents[1]
STUDIES = sorted(path.stem for path in (ROOT / "studies" / "paper").glob("*.toml"))
CHEAP = [name for name in STUDIES if not name.endswith("3d") and name not in ("allen_cahn_reference", "target_1d")]


@pytest.fixture(scope="module")
def shipped():
    return {name: read_result(ROOT / "data" / "results" / f"{name}.nc") for name in STUDIES}


def study_of(name):
    return Study.from_file(ROOT / "studies" / "paper" / f"{name}.toml")


def plan_of(name, data) -> Plan:
    """The study's plan; what its pilot chose is read from the result."""
    study = study_of(name)
    if study.pilot is None:
        return plan_study(study)[-1]
    (parameter,) = study.pilot.parameters
    gamma = data[parameter].transpose(*study.pilot.by)
    table = {
        tuple(to_string(to_canonical(gamma[dim].values[i])) for dim, i in zip(gamma.dims, at, strict=True)): (
            float(value),
        )
        for at, value in np.ndenumerate(gamma.values)
    }
    return plan_phase(study, study.phases[-1], [ParameterTable((parameter,), study.pilot.by, table)])


def test_there_is_a_result_for_each_study_and_nothing_else():
    assert sorted(path.stem for path in (ROOT / "data" / "results").iterdir()) == STUDIES


def test_all_come_from_one_revision_without_uncommitted_changes(shipped):
    attributes = [data.attrs for groups in shipped.values() for data in groups.values()]
    assert {each["git_dirty"] for each in attributes} == {"false"}
    (revision,) = {each["git_revision"] for each in attributes}
    assert len(revision) == 40


@pytest.mark.parametrize("name", STUDIES)
def test_each_result_has_the_runs_of_its_study(shipped, name):
    data = shipped[name]["main"]
    assert data.attrs["study"] == study_of(name).text
    assert (to_status(data.run_status) == Status.ok).all()
    plan = plan_of(name, data)
    assert data.run_key.values.ravel().tolist() == [plan.case(index).key for index in range(plan.space.size)]


DEFECTS = (
    "mass_defect",
    "quadrature_defect",
    "raw_resolution",
    "mass_defect_cross_grid",
    "stiffness_defect_cross_grid",
)
"""Relative differences of operators, which may be rounding alone: another BLAS changes them by up to 7e-10, whatever
is left of them."""


@pytest.mark.parametrize("name", CHEAP)
def test_a_run_computed_again_gives_the_same_numbers(shipped, name):
    """To 1e-12 with the software that computed the file, else to what another BLAS may change (conventions: 1e-9)."""
    data = shipped[name]["main"]
    plan = plan_of(name, data)
    index = (7919 * len(name)) % plan.space.size  # some run, the same every time
    records = compute_here(Batch.from_cases(plan.spec, [plan.case(index)]))
    assert records.status.tolist() == [Status.ok]
    same = json.loads(read_versions()) in json.loads(data.run_software.attrs["software_sets"])
    position = np.unravel_index(index, plan.space.shape)
    compared = 0
    for stack in records.stacks:
        if stack.role != VARIABLE:
            continue
        stored = data[stack.name].values[position]
        again = stack.values[0]
        stored = stored[tuple(slice(0, n) for n in again.shape)]  # runs of higher rank have more modes
        if stack.name == "reference_coefficients" and not same:  # a singular vector's sign is LAPACK's choice
            stored, again = np.abs(stored), np.abs(again)
        scale = 1.0 if stack.name in DEFECTS else np.abs(again).max()
        assert stored == pytest.approx(again, rel=1e-12 if same else 1e-8, abs=(1e-12 if same else 1e-8) * scale)
        compared += 1
    assert compared >= 1


def test_the_published_numbers_are_in_them(shipped):
    results = {name: groups["main"] for name, groups in shipped.items()}
    results |= {f"{name}/pilot": groups["pilot"] for name, groups in shipped.items() if "pilot" in groups}
    folder = ROOT / "data" / "published"
    entries = judge_numbers(read_published(folder), results, read_known_differences(folder))
    assert len(entries) == 352
    assert all(entry.agrees for entry in entries)
    assert sum(entry.verdict is Verdict.all_digits for entry in entries) == 324
    assert f"\n{summarise(entries)}\n" in (ROOT / "README.md").read_text()


def test_the_lines_of_the_data_readme_read_a_table_off(capsys, monkeypatch):
    text = (ROOT / "data" / "README.md").read_text()
    _, lines, after = text.split("```python\n")[0], *text.split("```python\n")[1].split("```", 1)
    monkeypatch.chdir(ROOT)
    exec(lines, {})
    shown = after.split("```\n")[1]
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        line.split() for line in shown.splitlines()
    ]

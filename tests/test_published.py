"""The paper's numbers, computed from the study files by this code and judged one by one.

`test_shipped_results` judges the stored results in the default run, and computes runs of them again.  Studies that take
longest (`LONG`) are marked slow; `evogt reproduce` computes and judges everything.
"""

from pathlib import Path

import numpy as np
import pytest

import evogt_study as evs
from evogt_study import pde
from evogt_study.analysis.tables import NumberFormat, make_table, render_table
from evogt_study.paper.published import (
    Verdict,
    find_calculation,
    judge_numbers,
    read_csv,
    read_known_differences,
    read_published,
)
from evogt_study.results.netcdf import read_result
from evogt_study.schema.variables import Status, to_status

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "data" / "published"
KNOWN = read_known_differences(PUBLISHED)
LONG = {"target_1d", "nonseparable_3d", "refined_nonseparable_3d", "allen_cahn_reference"}

# Numbers that do not round to the printed digits.  All but the last were rounded twice by the authors, to four digits
# and then to three: 0.27547 -> 0.2755 -> 0.276.  The naive transcription of the algorithm in specification.py gives the
# first two values as well, and one-ulp changes of the features move them by 1e-10 only.  The last is a printed bound.
ONE_UNIT_OFF = {
    ("oscillatory_1d", "0.2 uniform_elm error std"): 0.2754689,
    ("oscillatory_1d", "0.05 transnet error std"): 0.05024901,
    ("quadrature", "80 gtransnet error mean"): 9.824531e-4,
    ("nonseparable_3d", "0.125 gaussian_rf error mean"): 0.07634701,
    ("conditioning", "0.2 transnet retained_condition median"): 5.824833e11,
    ("conditioning", "0.1 transnet retained_condition median"): 5.824833e11,
    ("conditioning", "0.05 transnet retained_condition median"): 5.824833e11,
    ("cross_grid", "relative change of final error, 3-D Gaussian RF seed 0, 20^3 to 24^3"): 7.912420e-6,
}
BY_ORDER = {"conditioning", "threshold", "reference_tolerance", "claims"}
"""Tables with numbers that are rounding noise."""


def slow_if(long):
    return [pytest.mark.slow] if long else []


@pytest.fixture(scope="session")
def result(tmp_path_factory, client):
    """Returns the result of a study, computed at the first call; "NAME/pilot" names its pilot."""
    folder = tmp_path_factory.mktemp("published")
    known = {}

    def of(name):
        study, _, group = name.partition("/")
        if study not in known:
            path = folder / f"{study}.nc"
            evs.run(evs.Study.from_file(ROOT / "studies" / "paper" / f"{study}.toml"), client=client, output=path)
            known[study] = read_result(path)
        return known[study][group or "main"]

    return of


class LazyResults(dict):
    """Results that are computed when they are read."""

    def __init__(self, result, studies):
        piloted = [f"{name}/pilot" for name in studies if name in ("oscillatory_1d", "target_1d")]
        super().__init__(dict.fromkeys([*studies, *piloted]))
        self.result = result

    def __getitem__(self, name):
        return self.result(name)


def find_studies(row):
    return {source.study for source in find_calculation(row)[1]}


ROWS = [
    pytest.param(row, marks=slow_if(LONG & find_studies(row)), id=f"{row.file}-{i}")
    for i, row in enumerate(read_published(PUBLISHED))
]


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
def test_published_number(result, row):
    (entry,) = judge_numbers([row], LazyResults(result, find_studies(row)), KNOWN)
    place = (row.file, " ".join(row.labels.values()))
    assert entry.n_ok == entry.n_planned > 0
    if entry.known:
        assert entry.verdict is Verdict.differs
        assert (row.file, row.labels.get("k")) in {("space_time_diagnostic", "8"), ("cross_grid", None)}
    elif place in ONE_UNIT_OFF:
        assert entry.verdict is Verdict.one_unit
        assert entry.computed == pytest.approx(ONE_UNIT_OFF[place], rel=1e-6, abs=0.0)
    elif entry.verdict is Verdict.same_order:
        assert row.file in BY_ORDER
    else:
        assert entry.verdict is Verdict.all_digits, f"published {entry.published}, computed {entry.computed!r}"


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "runs"), [("oscillatory_1d", 600), pytest.param("target_1d", 570, marks=pytest.mark.slow)]
)
def test_the_pilot_computed_the_published_candidates_on_its_own_seeds(result, name, runs):
    pilot = result(f"{name}/pilot")
    assert int((to_status(pilot.run_status) == Status.ok).sum()) == int((pilot.run_key != "").sum()) == runs
    assert set(pilot.seed.values.tolist()) == {100, 101, 102, 103, 104}
    for dictionary in pilot.dictionary.values:
        rows = read_csv(PUBLISHED / "gamma_candidates.csv")
        expected = [float(row["gamma"]) for row in rows if (row["study"], row["dictionary"]) == (name, dictionary)]
        gamma = pilot.gamma.sel(dictionary=dictionary).values
        np.testing.assert_array_equal(gamma[~np.isnan(gamma)], expected)


@pytest.mark.slow
def test_half_the_final_time_explains_the_difference_of_the_fixed_operator():
    """Runs that end at half the stated time give the printed number, refined to 48 points as the others are."""
    problem = evs.Study.from_file(ROOT / "studies/paper/refined_operator_2d.toml").spec.problem
    fixed = problem(modulation=0, epsilon=0.1, final_time=0.06)
    features = pde.Dictionary("gaussian_rf", N=150, gamma=4, radius=0.8)

    def change(refined, final_time):
        options = {"dt": 0.003, "final_time": final_time, "validation": 64, "certificates": False}
        coarse, fine = (float(pde.solve(fixed, features, 1, quadrature=n, **options).error) for n in (36, refined))
        return f"{abs(fine - coarse) / coarse * 1e5:.3f}e-5"

    printed = next(row.published for row in read_published(PUBLISHED) if "fixed 2-D" in row.labels.get("variable", ""))
    assert change(48, 0.03) == printed
    assert printed not in (change(48, 0.06), change(44, 0.03))


def test_the_page_on_the_paper_shows_this_table():
    with evs.open(ROOT / "data/results/oscillatory_1d.nc") as data:
        header, body = make_table(evs.summary(data.error, over="seed")).flatten(NumberFormat())
    assert render_table(header, body, "text") in (ROOT / "docs/tutorials/paper.md").read_text()

"""The paper's tables, computed afresh from the study files and compared entry by entry."""

import csv
import math
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.analysis.tables import rendered, rows
from evogt_study.sweep.store import read_result

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "data" / "published"
UNRESOLVED = 2.22e-16  # tab:diagnostics: sigma_min(M_q) <= eps_mach sigma_max(M_q)
RUNS = {
    "oscillatory_1d": 240,
    "target_1d": 240,
    "feature_count": 75,
    "threshold": 80,
    "quadrature": 100,
    "operator_2d": 120,
    "nonseparable_2d": 60,
    "nonseparable_3d": 30,
}


def published(name):
    with (PUBLISHED / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="session")
def result(tmp_path_factory, client):
    """A study's result by its name: run in full, pilot included, when it is first asked for."""
    folder = tmp_path_factory.mktemp("published")

    def of(name):
        path = folder / f"{name}.nc"
        if not path.exists():
            study = evs.Study.from_file(ROOT / "studies" / "paper" / f"{name}.toml")
            evs.run(study, client=client, output=path)
        return read_result(path)

    return of


# Four printed errors were rounded twice, to four digits and then to three: 0.27547 -> 0.2755 -> 0.276.  Rounded once
# they would read 2.75e-1, 5.02e-2, 9.82e-4 and 7.63e-2.  The naive transcription of the algorithm in specification.py
# gives the first two values as well, and one-ulp changes of the features move them by 1e-10 only.
TWICE_ROUNDED = {
    ("oscillatory_1d", "0.2", "uniform_elm", "std"): 0.2754689,
    ("oscillatory_1d", "0.05", "transnet", "std"): 0.05024901,
    ("quadrature", "80", "gtransnet", "mean"): 9.824531e-4,
    ("nonseparable_3d", "0.125", "gaussian_rf", "mean"): 0.07634701,
}


def rounded(value, digits):
    exact = Decimal(repr(value))
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return float(exact.quantize(unit, ROUND_HALF_UP))


def last_digit(text):
    """Size of one unit in the last printed digit: "4.50e-2" -> 1e-4."""
    mantissa, _, exponent = text.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def agrees(text, value):
    """Whether `value` rounds to the printed number; a value on the half-unit itself may round either way."""
    return abs(value - float(text)) <= 0.5 * last_digit(text) * (1 + 1e-9)


def test_agreement_is_strict():
    assert agrees("4.50e-2", 0.04504)
    assert not agrees("4.50e-2", 0.04506)
    assert agrees("125.0", 124.96)
    assert not agrees("125.0", 124.94)


OPERATORS = {"fixed": 0, "time_dependent": 1}


def at_row(data, row):
    """The row's variable at the row's values of the axes, the dictionary left open."""
    values = data[row["variable"]]
    for axis in set(values.dims) - {"dictionary", "seed"}:
        label = OPERATORS[row["operator"]] if axis == "modulation" else float(row[axis])
        values = values.sel({axis: label})
    return values


def statistic(data, row):
    """The published row's statistic, from unrounded values."""
    values = at_row(data, row)
    if row["dictionary"] == "transnet/gtransnet":
        over = {"gain": "mean", "median_gain": "median"}[row["statistic"]]
        return reduced(values.sel(dictionary="transnet"), over) / reduced(values.sel(dictionary="gtransnet"), over)
    return reduced(values.sel(dictionary=row["dictionary"]), row["statistic"])


def reduced(values, name):
    return float(values.max()) if name == "max" else float(evs.summary(values, over="seed")[name])


ROWS = [(name, row) for name in RUNS for row in published(name)]


@pytest.mark.parametrize(("name", "row"), ROWS, ids=["-".join(row.values()).replace("/", ":") for _, row in ROWS])
def test_tables(result, name, row):
    value = statistic(result(name)["study"], row)
    place = row.get("epsilon") or row.get("quadrature")
    if row["variable"] == "mass_defect":
        assert same_order(row["value"], value)
    elif (name, place, row["dictionary"], row["statistic"]) in TWICE_ROUNDED:
        assert value == pytest.approx(TWICE_ROUNDED[name, place, row["dictionary"], row["statistic"]], rel=1e-6)
        assert rounded(rounded(value, 4), 3) == float(row["value"])
    else:
        assert agrees(row["value"], value), f"computed {value:.6g}"


@pytest.mark.parametrize("name", RUNS)
def test_all_runs_are_there(result, name):
    data = result(name)["study"]
    assert int(data.error.notnull().sum()) == data.error.size == RUNS[name]


def same_order(text, value):
    """Mass defects are rounding noise: only their order of magnitude is meant."""
    return abs(math.log10(value / float(text))) < 0.5


@pytest.mark.parametrize("row", published("conditioning"), ids=lambda row: "-".join(row.values()))
def test_conditioning_table(result, row):
    data = result("oscillatory_1d")["study"].sel(epsilon=float(row["epsilon"]), dictionary=row["dictionary"])
    assert conditioning_agrees(data, row["variable"], row["value"])


def conditioning_agrees(data: xr.Dataset, variable, text):
    if variable == "rank":
        return agrees(text, float(data["rank"].mean()))
    if variable == "raw_unresolved":
        return int((data.raw_resolution <= UNRESOLVED).sum()) == int(text)
    if variable == "retained_condition":  # one unit in the last digit, as the issue of this table grants
        return abs(float(data.retained_condition.median()) - float(text)) <= 1.5 * last_digit(text)
    if variable == "mass_defect":
        return same_order(text, float(data.mass_defect.max()))
    assert variable == "raw_condition"
    if text == "singular":
        return bool((data.raw_resolution <= UNRESOLVED).all())
    return math.floor(math.log10(float((1.0 / data.raw_resolution).median()))) == round(math.log10(float(text)))


@pytest.mark.parametrize("name", ["oscillatory_1d", "target_1d"])
def test_pilot_chooses_the_published_gamma(result, name):
    rows = [row for row in published("gamma_selected") if row["study"] == name]
    gamma = result(name)["study"].gamma
    assert len(rows) == gamma.sizes["epsilon"] == 3
    for row in rows:
        for dictionary in gamma.dictionary.values:
            chosen = float(gamma.sel(epsilon=float(row["epsilon"]), dictionary=dictionary))
            assert chosen == float(row[dictionary]), (row["epsilon"], dictionary)


@pytest.mark.parametrize("name", ["oscillatory_1d", "target_1d"])
def test_pilot_tried_the_published_candidates(result, name):
    gamma = result(name)["pilot"].gamma
    for dictionary in gamma.dictionary.values:
        tried = gamma.sel(dictionary=dictionary).values
        wanted = [
            float(row["gamma"])
            for row in published("gamma_candidates")
            if row["study"] == name and row["dictionary"] == dictionary
        ]
        np.testing.assert_array_equal(tried[~np.isnan(tried)], wanted)


@pytest.mark.parametrize(("name", "runs"), [("oscillatory_1d", 600), ("target_1d", 570)])
def test_pilot_ran_whole_on_its_own_seeds(result, name, runs):
    pilot = result(name)["pilot"]
    assert int((pilot.status == 1).sum()) == int((pilot.case_key != "").sum()) == runs
    assert set(pilot.seed.values.tolist()) == {100, 101, 102, 103, 104}


def test_the_readme_shows_this_table(result):
    header, body = rows(evs.summary(result("oscillatory_1d")["study"].error, over="seed"))
    assert rendered(header, body, "text") in (ROOT / "README.md").read_text()

"""The paper's one-dimensional tables, computed afresh from the study files and compared entry by entry."""

import csv
import math
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.sweep.store import read_result

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "data" / "published"
UNRESOLVED = 2.22e-16  # tab:diagnostics: sigma_min(M_q) <= eps_mach sigma_max(M_q)


def published(name):
    with (PUBLISHED / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """Both paper studies run in full, pilot included, as `evogt run` does."""
    folder = tmp_path_factory.mktemp("published")
    for name in ("oscillatory_1d", "target_1d"):
        study = evs.Study.from_file(ROOT / "studies" / "paper" / f"{name}.toml")
        evs.run(study, output=folder / f"{name}.nc")
    return {name: read_result(folder / f"{name}.nc") for name in ("oscillatory_1d", "target_1d")}


# Two printed standard deviations were rounded twice, to four digits and then to three: 0.27547 -> 0.2755 -> 0.276 and
# 0.050249 -> 0.05025 -> 0.0503.  Rounded once they would read 2.75e-1 and 5.02e-2.  The naive transcription of the
# algorithm in specification.py gives the values below too, and one-ulp changes of the features move them by 1e-10 only.
TWICE_ROUNDED = {
    ("main1d", "0.2", "uniform_elm", "std"): 0.2754689,
    ("main1d", "0.05", "transnet", "std"): 0.05024901,
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


def statistic(error, row):
    """The published row's statistic, from unrounded values."""
    at = error.sel(epsilon=float(row["epsilon"]))
    if row["dictionary"] == "transnet/gtransnet":
        over = {"gain": "mean", "median_gain": "median"}[row["statistic"]]
        return float(reduced(at.sel(dictionary="transnet"), over) / reduced(at.sel(dictionary="gtransnet"), over))
    return float(reduced(at.sel(dictionary=row["dictionary"]), row["statistic"]))


def reduced(values, name):
    return evs.summary(values, over="seed")[name]


@pytest.mark.parametrize(
    ("name", "row"),
    [(name, row) for name in ("oscillatory_1d", "target_1d") for row in published(name)],
    ids=lambda value: value if isinstance(value, str) else "-".join(value.values()).replace("/", ":"),
)
def test_error_tables(results, name, row):
    error = results[name]["study"].error
    assert int(error.notnull().sum()) == error.size == 240
    value = statistic(error, row)
    exception = TWICE_ROUNDED.get((row["table"], row["epsilon"], row["dictionary"], row["statistic"]))
    if exception is None:
        assert agrees(row["value"], value), f"computed {value:.6g}"
    else:
        assert value == pytest.approx(exception, rel=1e-6)
        assert rounded(rounded(value, 4), 3) == float(row["value"])


@pytest.mark.parametrize("row", published("conditioning"), ids=lambda row: "-".join(row.values()))
def test_conditioning_table(results, row):
    data = results["oscillatory_1d"]["study"].sel(epsilon=float(row["epsilon"]), dictionary=row["dictionary"])
    assert conditioning_agrees(data, row["variable"], row["value"])


def conditioning_agrees(data: xr.Dataset, variable, text):
    if variable == "rank":
        return agrees(text, float(data["rank"].mean()))
    if variable == "raw_unresolved":
        return int((data.raw_resolution <= UNRESOLVED).sum()) == int(text)
    if variable == "retained_condition":  # one unit in the last digit, as the issue of this table grants
        return abs(float(data.retained_condition.median()) - float(text)) <= 1.5 * last_digit(text)
    if variable == "mass_defect":  # rounding noise: the order of magnitude is all that is meant
        return abs(math.log10(float(data.mass_defect.max()) / float(text))) < 0.5
    assert variable == "raw_condition"
    if text == "singular":
        return bool((data.raw_resolution <= UNRESOLVED).all())
    return math.floor(math.log10(float((1.0 / data.raw_resolution).median()))) == round(math.log10(float(text)))


@pytest.mark.parametrize("name", ["oscillatory_1d", "target_1d"])
def test_pilot_chooses_the_published_gamma(results, name):
    rows = [row for row in published("gamma_selected") if row["study"] == name]
    gamma = results[name]["study"].gamma
    assert len(rows) == gamma.sizes["epsilon"] == 3
    for row in rows:
        for dictionary in gamma.dictionary.values:
            chosen = float(gamma.sel(epsilon=float(row["epsilon"]), dictionary=dictionary))
            assert chosen == float(row[dictionary]), (row["epsilon"], dictionary)


@pytest.mark.parametrize("name", ["oscillatory_1d", "target_1d"])
def test_pilot_tried_the_published_candidates(results, name):
    gamma = results[name]["pilot"].gamma
    for dictionary in gamma.dictionary.values:
        tried = gamma.sel(dictionary=dictionary).values
        wanted = [
            float(row["gamma"])
            for row in published("gamma_candidates")
            if row["study"] == name and row["dictionary"] == dictionary
        ]
        np.testing.assert_array_equal(tried[~np.isnan(tried)], wanted)


@pytest.mark.parametrize(("name", "runs"), [("oscillatory_1d", 600), ("target_1d", 570)])
def test_pilot_ran_whole_on_its_own_seeds(results, name, runs):
    pilot = results[name]["pilot"]
    assert int((pilot.status == 1).sum()) == int((pilot.case_key != "").sum()) == runs
    assert set(pilot.seed.values.tolist()) == {100, 101, 102, 103, 104}

"""Reading published numbers and the results that they are compared with; what makes an entry differ."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from evogt_study.errors import InputError
from evogt_study.paper.published import (
    KNOWN,
    RENAMED,
    TABLES,
    KnownDifference,
    Row,
    Verdict,
    find_calculation,
    judge_numbers,
    read_csv,
    read_known_differences,
    read_published,
)
from evogt_study.schema.variables import Status

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "data" / "published"
PAPER = ROOT / "studies" / "paper"

# --- the published numbers --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    return read_published(FOLDER)


def test_every_number_of_every_file_is_a_row(rows):
    """Counted in the files themselves: one a line, and one a filled cell of the table of shape parameters."""
    found = {name: sum(row.file == name for row in rows) for name in TABLES}
    expected = {name: len((FOLDER / f"{name}.csv").read_text().splitlines()) - 1 for name in TABLES}
    cells = [line.split(",")[2:] for line in (FOLDER / "gamma_selected.csv").read_text().splitlines()[1:]]
    expected["gamma_selected"] = sum(bool(cell) for line in cells for cell in line)
    assert found == expected
    assert len(rows) == sum(expected.values()) == 352


def test_every_row_is_computed_by_studies_of_the_paper(rows):
    names = {path.stem for path in PAPER.glob("*.toml")}
    needed = {source.study for row in rows for source in find_calculation(row)[1]}
    assert needed <= names
    assert names - needed == {"nonseparable_2d_field"}  # a figure, of which no number is printed
    assert set(RENAMED.values()) <= names


# --- judging ----------------------------------------------------------------------------------------------------------


def threshold(errors):
    """A result of the study `threshold` with these errors over seeds, for tau = 1e-8 and one dictionary."""
    errors = np.asarray(errors, dtype=float)
    return xr.Dataset(
        {"error": (("tau", "dictionary", "seed"), errors[None, None, :])},
        {"tau": [1e-8], "dictionary": ["transnet"], "seed": np.arange(len(errors))},
    )


def row(value, file="threshold", **labels):
    named = {"tau": "1e-8", "dictionary": "transnet", "variable": "error", "statistic": "max"}
    return Row(file, "tau_diag", {**named, **labels}, value)


def test_an_entry_holds_both_numbers_and_the_runs():
    (entry,) = judge_numbers([row("2.00e-1", statistic="mean")], {"threshold": threshold([0.1, 0.3])})
    assert (entry.file, entry.table, entry.published, entry.measure) == ("threshold", "tau_diag", "2.00e-1", "digits")
    assert entry.computed == pytest.approx(0.2)
    assert (entry.n_ok, entry.n_planned, entry.known) == (2, 2, "")
    assert entry.verdict is Verdict.all_digits
    assert entry.agrees


def test_rows_whose_studies_are_absent_are_left_out():
    two = [row("3.00e-1"), row("1", file="quadrature", quadrature="80")]
    assert [entry.file for entry in judge_numbers(two, {"threshold": threshold([0.3])})] == ["threshold"]
    assert judge_numbers(two, {}) == []
    refined = Row(
        "cross_grid", "text", {"variable": "relative change of final error, refined assembly, nonseparable 2-D"}, "1"
    )
    assert judge_numbers([refined], {"nonseparable_2d": threshold([0.3])}) == []  # it needs the refined study too


def test_a_number_over_fewer_runs_differs_whatever_it_is():
    (entry,) = judge_numbers([row("3.00e-1")], {"threshold": threshold([0.1, np.nan, 0.3])})
    assert entry.computed == 0.3
    assert (entry.n_ok, entry.n_planned) == (2, 3)
    assert entry.verdict is Verdict.differs
    assert not entry.agrees


@pytest.mark.parametrize(
    "other",
    [
        {"file": "quadrature"},
        {"labels": {"tau": "1e-10"}},
        {"labels": {"tau": "1e-8", "statistic": "mean"}},
        {"labels": {"tau": "1e-8", "epsilon": "0.1"}},  # a label that the row does not have
        {"labels": {"tau": "0.00000001"}},  # labels are compared as printed
        {"computed": "3.01e-1"},  # another number than the one that was looked at
    ],
)
def test_a_known_difference_excuses_only_the_entries_that_it_names(other):
    right = {"file": "threshold", "labels": {}, "computed": "3.00e-1", "explanation": "a misprint"}
    assert judge_numbers([row("9.99e-1")], {"threshold": threshold([0.3])}, [KnownDifference(**right)])[0].agrees
    known = KnownDifference(**{**right, **other})
    (entry,) = judge_numbers([row("9.99e-1")], {"threshold": threshold([0.3])}, [known])
    assert entry.known == ""
    assert not entry.agrees


def test_known_differences_are_read(tmp_path):
    (tmp_path / f"{KNOWN}.csv").write_text(
        "file,entries,computed,explanation\n"
        'threshold,k=8; method=m ;statistic = mean,1.0,"one, two"\n'
        '"cross_grid","variable=relative change, fixed",2e-3,three\n'
    )
    assert read_known_differences(tmp_path) == [
        KnownDifference("threshold", {"k": "8", "method": "m", "statistic": "mean"}, "1.0", "one, two"),
        KnownDifference("cross_grid", {"variable": "relative change, fixed"}, "2e-3", "three"),
    ]
    (tmp_path / f"{KNOWN}.csv").write_text("file,entries,computed,explanation\ntreshold,a=1,1.0,why\n")
    with pytest.raises(InputError, match="`file` must be one of .*, got 'treshold'"):
        read_known_differences(tmp_path)


def test_each_known_difference_of_the_paper_names_one_number(rows):
    """An explanation of more than it was written for would hide what nobody has looked at."""
    for known in read_known_differences(FOLDER):
        assert sum(known.explains(row, float(known.computed)) for row in rows) == 1, known
        assert len(known.explanation) > 40


# --- files that cannot be read, and numbers that were not computed ----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a column `value`, got none"),
        ("table,tau\n", "must have a column `value`"),
        ("table,value\n", "must have rows, got none"),
        ("table,tau,value\na,1\n", "line 2 must have 3 columns"),
        ("table,value\na,1,2\n", "line 2 must have 2 columns"),
        ('table,value\na,"1\n', "must be CSV"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_csv(tmp_path / "a.csv", "value")


def test_values_that_are_not_on_the_axes_are_not_computed():
    results = {"threshold": threshold([0.3])}
    assert judge_numbers([row("1", tau="1e-9"), row("1", dictionary="gtransnet")], results) == []


def test_a_variable_that_no_run_returned_is_missing_not_absent():
    data = threshold([0.1, 0.3]).assign(run_status=lambda data: xr.zeros_like(data.error).astype(np.int8))
    (entry,) = judge_numbers([row("30.6", variable="rank", statistic="mean")], {"threshold": data})
    assert (entry.n_ok, entry.n_planned, entry.verdict) == (0, 2, Verdict.differs)


@pytest.mark.parametrize("labels", [{"variable": "eror"}, {"statistic": "mode"}])
def test_a_row_of_an_unknown_variable_or_statistic_is_refused(labels):
    with pytest.raises(InputError, match=r"threshold|unknown variable"):
        judge_numbers([row("1", **labels)], {"threshold": threshold([0.3])})


# --- tables with a reading of their own -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resolutions", "expected"),
    [([1e-17, 2e-17, 0.0], "singular"), ([1e-17, 1e-10, 1e-10], "partly singular"), ([3e-11, 2e-11, 1e-12], "1e10")],
)
def test_raw_conditions_are_an_order_of_magnitude_or_a_word(resolutions, expected):
    data = xr.Dataset(
        {"raw_resolution": (("epsilon", "seed"), [resolutions])}, {"epsilon": [0.2], "seed": [0, 1, 2]}
    )  # fmt: skip
    labels = {"epsilon": "0.2", "variable": "raw_condition", "statistic": "order_of_magnitude"}
    unresolved = {**labels, "variable": "raw_unresolved", "statistic": "count"}
    rows = [Row("conditioning", "t", labels, expected), Row("conditioning", "t", unresolved, "0")]
    condition, count = judge_numbers(rows, {"oscillatory_1d": data})
    assert (condition.computed, condition.verdict) == (expected, Verdict.all_digits)
    assert count.computed == sum(value <= 2.22e-16 for value in resolutions)


def test_the_selected_shape_parameter_rests_on_the_pilots_runs():
    chosen = xr.Dataset(
        {"gamma": (("dictionary", "epsilon"), [[10.0, 8.0]])}, {"dictionary": ["transnet"], "epsilon": [0.2, 0.1]}
    )
    status = [[[Status.ok, Status.ok], [Status.ok, Status.failed]]]
    dims, keys = ("dictionary", "epsilon", "seed"), [[["a", "b"], ["c", "d"]]]
    axes = {"dictionary": ["transnet"], "epsilon": [0.2, 0.1], "seed": [100, 101]}
    pilot = xr.Dataset({"run_key": (dims, keys), "run_status": (dims, status)}, axes)
    labels = {"study": "target_1d", "dictionary": "transnet", "variable": "gamma"}
    rows = [Row("gamma_selected", "g", {**labels, "epsilon": e}, gamma) for e, gamma in (("0.2", "10"), ("0.1", "8"))]
    whole, partly = judge_numbers(rows, {"target_1d": chosen, "target_1d/pilot": pilot})
    assert (whole.computed, whole.n_ok, whole.n_planned, whole.verdict) == ("10", 2, 2, Verdict.all_digits)
    assert (partly.computed, partly.n_ok, partly.n_planned, partly.verdict) == ("8", 1, 2, Verdict.differs)

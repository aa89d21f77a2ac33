"""Paired comparison and ranking: closed forms, SciPy, and what becomes of missing, equal and few pairs."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import evogt_study as evs
from evogt_study.analysis.comparison import compare, ranking
from evogt_study.analysis.reduce import IncompleteWarning
from evogt_study.errors import IncompleteError, InputError, ParameterError
from evogt_study.inference.comparisons import signed_rank_tests, wilcoxon, win_interval
from evogt_study.inference.intervals import Interval

RELAXED = settings(deadline=None, max_examples=50)  # machines are shared

NAN = np.nan


def labelled(values, labels=("T", "G", "R")):
    values = np.asarray(values, dtype=float)
    coords = {"dictionary": list(labels)[: values.shape[0]], "seed": range(values.shape[1])}
    return xr.DataArray(values, coords, ["dictionary", "seed"], name="error")


# --- comparison -------------------------------------------------------------------------------------------------------


def test_ratios_and_wins_in_closed_form():
    found = compare(labelled([[2.0, 8.0, 3.0, 1.0], [1.0, 2.0, 3.0, 4.0]]), "dictionary", "T", "G")
    assert float(found["ratio_of_means"]) == pytest.approx(14.0 / 10.0)
    assert float(found["ratio_of_medians"]) == pytest.approx(2.5 / 2.5)
    assert float(found["median_ratio"]) == pytest.approx(1.5)  # of 2, 4, 1, 1/4
    assert [int(found[name]) for name in ("wins", "losses", "ties", "n_ok", "n_planned")] == [1, 2, 1, 4, 4]
    assert float(found["win_rate"]) == pytest.approx(1.0 / 3.0)
    assert found.attrs["first"] == "dictionary=T"


def test_higher_may_be_better():
    pair = labelled([[2.0, 8.0, 3.0], [1.0, 2.0, 4.0]])
    lower, higher = (compare(pair, "dictionary", "T", "G", better=better) for better in ("lower", "higher"))
    assert (int(lower["wins"]), int(higher["wins"])) == (1, 2)
    assert float(lower["p_value"]) == float(higher["p_value"])


def test_only_pairs_of_which_both_are_there_count():
    found_values = labelled([[2.0, NAN, 4.0, 9.0], [1.0, 5.0, 2.0, NAN]])
    with pytest.warns(IncompleteWarning, match="^2 of 4 pairs of runs have no `error`; they are left out"):
        found = compare(found_values, "dictionary", "T", "G")
    assert (int(found["n_ok"]), int(found["n_planned"])) == (2, 4)
    assert float(found["ratio_of_means"]) == pytest.approx(2.0)
    assert np.isnan(found["ratio_ci"]).all()  # of two pairs, unless asked for
    asked = compare(found_values, "dictionary", "T", "G", missing="drop", interval=Interval(fewest=2))
    np.testing.assert_allclose(asked["ratio_ci"], [2.0, 2.0])  # each pair has this ratio, so each resample has
    with pytest.raises(IncompleteError, match="2 of 4 pairs of runs"):
        compare(found_values, "dictionary", "T", "G", missing="raise")
    assert int(compare(found_values, "dictionary", "T", "G", missing="drop")["n_ok"]) == 2


@pytest.mark.filterwarnings("error")
def test_an_infinite_value_loses_its_pair():
    found = compare(labelled([[1.0] * 6 + [np.inf] * 4, [2.0] * 10]), "dictionary", "T", "G")
    assert [int(found[name]) for name in ("wins", "losses", "ties", "n_ok", "n_planned")] == [6, 4, 0, 10, 10]
    assert [float(found[name]) for name in ("ratio_of_means", "median_ratio", "log_ratio")] == [np.inf, 0.5, np.inf]
    none = ("ratio_ci", "ratio_se", "log_ratio_ci", "log_ratio_p", "welch_p")
    assert all(np.isnan(found[name]).all() for name in none)
    ranks = np.array([-1.0] * 6 + [2.0, 2.0, 2.0, 2.0])
    np.testing.assert_allclose([found["wilcoxon"], found["p_value"]], wilcoxon(ranks))
    assert 0.0 < float(found["mann_whitney_p"]) < 1.0


@pytest.mark.filterwarnings("error")
def test_a_pair_of_infinite_values_is_a_tie_without_a_ratio():
    found = compare(labelled([[1.0, 2.0, np.inf], [2.0, 2.0, np.inf]]), "dictionary", "T", "G")
    assert [int(found[name]) for name in ("wins", "losses", "ties", "n_ok")] == [1, 0, 2, 3]
    assert all(np.isnan(found[name]) for name in ("ratio_of_means", "median_ratio", "log_ratio", "log_ratio_p"))


@pytest.mark.filterwarnings("error")
def test_a_ratio_over_zero_is_infinite_and_has_its_place_in_the_median():
    found = compare(labelled([[1.0] * 7, [0.0] * 6 + [1.0]]), "dictionary", "T", "G")
    assert [float(found[name]) for name in ("median_ratio", "ratio_of_medians")] == [np.inf, np.inf]
    assert found["median_ratio_ci"].values.tolist() == [1.0, np.inf]
    undefined = compare(labelled([[0.0, 1.0, 3.0], [0.0, 1.0, 1.0]]), "dictionary", "T", "G")
    assert np.isnan(undefined["median_ratio"])
    assert np.isnan(undefined["median_ratio_ci"]).all()


def test_infinite_values_are_ranked_last():
    values = labelled([[1.0, 1.0, np.inf], [2.0, 2.0, 2.0], [NAN, NAN, NAN]])
    found = ranking(values, "dictionary", missing="drop")
    assert found["mean"].values[:2].tolist() == [np.inf, 2.0]
    assert found["place"].values[:2].tolist() == [2.0, 1.0]
    assert found["best"].values.tolist() == [2, 1, 0]
    assert int(found["n_common"]) == 3


def test_without_any_pair_there_is_no_number():
    found = compare(labelled([[NAN, 1.0], [1.0, NAN]]), "dictionary", "T", "G", missing="drop")
    assert int(found["n_ok"]) == 0
    for name in ("ratio_of_means", "median_ratio", "win_rate", "p_value", "wilcoxon", "ratio_ci", "win_ci"):
        assert np.isnan(found[name]).all(), name


def test_pairs_that_all_tie_say_nothing():
    found = compare(labelled([[1.0, 2.0], [1.0, 2.0]]), "dictionary", "T", "G")
    assert (int(found["ties"]), float(found["p_value"]), float(found["ratio_of_means"])) == (2, 1.0, 1.0)
    assert np.isnan(found["win_rate"])
    assert found["win_ci"].values.tolist() == [0.0, 1.0]


def test_one_pair_has_ratios_and_no_interval_of_them():
    found = compare(labelled([[4.0], [2.0]]), "dictionary", "T", "G")
    assert float(found["ratio_of_means"]) == 2.0
    assert np.isnan(found["ratio_ci"]).all()
    assert float(found["p_value"]) == 1.0


def test_labels_are_found_by_value_and_by_text():
    values = xr.DataArray([[2.0, 4.0], [1.0, 1.0]], {"epsilon": [0.1, 0.05]}, ["epsilon", "seed"], name="error")
    for first, second in ((0.1, 0.05), ("0.1", "5e-2"), (0.1, "0.050")):
        assert float(compare(values, "epsilon", first, second)["ratio_of_means"]) == 3.0


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        (("dictionary", "T", "X"), {}, ParameterError, "`dictionary` must be one of T, G, R, got 'X'"),
        (("dict", "T", "G"), {}, InputError, "`dim` must be one of dictionary, got 'dict'"),
        (("seed", 0, 1), {}, InputError, "`dim` must be one of dictionary, got 'seed'"),
        (("dictionary", "T", "G", "sed"), {}, InputError, "`over` must name dimensions of error (dictionary, seed)"),
        (("dictionary", "T", "G"), {"better": "less"}, ParameterError, "`better` must be one of lower, higher"),
        (("dictionary", "T", "G"), {"proportion": "wald"}, ParameterError, "`proportion` must be one of wilson, exact"),
        (
            ("dictionary", "T", "G"),
            {"interval": Interval("median", "bca")},
            ParameterError,
            "`interval` must be of the mean, and not by bca, got 'of the median by bca'",
        ),
        (("dictionary", "T", "G"), {"missing": "skip"}, ParameterError, "`missing` must be one of warn, raise, drop"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(arguments, options, error, said):
    with pytest.raises(error) as caught:
        compare(labelled(np.ones((3, 2))), *arguments, **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@RELAXED
@given(wins=st.integers(0, 30), losses=st.integers(0, 30), method=st.sampled_from(["wilson", "exact"]))
def test_the_interval_of_a_win_rate(wins, losses, method):
    low, high = win_interval(wins, losses, 0.95, method)
    n = wins + losses
    assert 0.0 <= low <= (wins / n if n else 0.5) <= high <= 1.0
    if method == "wilson" and n:  # its closed form
        z = scipy.stats.norm.ppf(0.975)
        centre = (wins / n + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(wins / n * (1 - wins / n) / n + z**2 / (4 * n**2))
        assert (low, high) == pytest.approx((max(0.0, centre - half), min(1.0, centre + half)), abs=1e-12)
    if method == "exact" and n and wins:  # Clopper and Pearson: a quantile of the beta distribution
        assert low == pytest.approx(scipy.stats.beta.ppf(0.025, wins, losses + 1), rel=1e-6)


VALUES = st.lists(st.tuples(*[st.floats(1e-6, 1e3) | st.just(NAN)] * 2), min_size=1, max_size=12)


@RELAXED
@given(VALUES)
def test_the_other_way_round_ratios_are_inverse_and_wins_are_losses(pairs):
    there = labelled(np.array(pairs).T)
    one = compare(there, "dictionary", "T", "G", missing="drop")
    other = compare(there, "dictionary", "G", "T", missing="drop")
    for name in ("ratio_of_means", "ratio_of_medians"):
        np.testing.assert_allclose(float(one[name]) * float(other[name]), 1.0 if one["n_ok"] else NAN, rtol=1e-12)
    assert (int(one["wins"]), int(one["losses"])) == (int(other["losses"]), int(other["wins"]))
    assert int(one["wins"] + one["losses"] + one["ties"]) == int(one["n_ok"]) <= int(one["n_planned"])
    np.testing.assert_allclose(one["p_value"], other["p_value"], rtol=1e-9)
    assert not one["p_value"] > 1.0
    np.testing.assert_allclose(one["win_ci"].values, 1.0 - other["win_ci"].values[::-1], atol=1e-9)


@RELAXED
@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_matter(pairs, random):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    one, other = (
        compare(labelled(np.array(each).T), "dictionary", "T", "G", missing="drop") for each in (pairs, shuffled)
    )
    for name in ("ratio_of_means", "ratio_of_medians", "median_ratio", "wins", "p_value", "n_ok"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9)


# --- Wilcoxon's signed-rank test --------------------------------------------------------------------------------------


def counted(differences):
    """The exact two-sided p by counting all signs, zeros dropped."""
    nonzero = differences[differences != 0]
    ranks = scipy.stats.rankdata(np.abs(nonzero))
    signs = np.array(np.meshgrid(*[[0, 1]] * len(nonzero))).reshape(len(nonzero), -1)
    sums = ranks @ signs
    observed = ranks[nonzero > 0].sum()
    lower, upper = np.mean(sums <= observed + 1e-9), np.mean(sums >= observed - 1e-9)
    return min(1.0, 2.0 * min(lower, upper))


@RELAXED
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_few_pairs_are_counted_with_ties_and_zeros(differences):
    differences = np.array(differences, dtype=float)
    statistic, p = wilcoxon(differences)
    nonzero = differences[differences != 0]
    if not nonzero.size:
        assert (statistic, p) == (0.0, 1.0)
        return
    ranks = scipy.stats.rankdata(np.abs(nonzero))
    assert statistic == min(ranks[nonzero > 0].sum(), ranks[nonzero < 0].sum())
    assert p == pytest.approx(counted(differences))


@pytest.mark.parametrize("count", [1, 2, 5, 20, 50, 51, 200])
def test_without_ties_the_test_is_that_of_scipy(count):
    differences = np.random.default_rng(count).normal(0.3, 1.0, (3, count))
    found = signed_rank_tests(differences)
    for row, (statistic, p) in zip(differences, found, strict=True):
        reference = scipy.stats.wilcoxon(row)
        assert (statistic, p) == pytest.approx((reference.statistic, reference.pvalue))
        assert (statistic, p) == pytest.approx(wilcoxon(row))


def test_rows_with_and_without_ties_and_gaps_are_tested_one_as_the_other():
    rows = np.array([[1.0, -2.0, 3.0, 4.0], [1.0, 1.0, -2.0, 0.0], [NAN, 2.0, -1.0, 3.0], [0.0] * 4, [NAN] * 4])
    found = signed_rank_tests(rows)
    for row, pair in zip(rows, found, strict=True):
        np.testing.assert_allclose(pair, wilcoxon(row[np.isfinite(row)]))


# --- ranking ----------------------------------------------------------------------------------------------------------


def test_places_and_how_often_each_is_best():
    found = ranking(labelled([[3.0, 3.0, 1.0], [1.0, 2.0, 2.0], [2.0, 2.0, 5.0]]), "dictionary")
    assert found["place"].values.tolist() == [2.0, 1.0, 3.0]
    assert found["best"].values.tolist() == [1, 2, 1]  # seed 1 is shared
    assert (int(found["n_common"]), found["n_planned"].values.tolist()) == (3, [3, 3, 3])
    np.testing.assert_allclose(found["mean"], [7 / 3, 5 / 3, 3.0])
    by_median = ranking(labelled([[3.0, 3.0, 1.0], [1.0, 2.0, 2.0], [2.0, 2.0, 5.0]]), "dictionary", by="median")
    assert by_median["place"].values.tolist() == [3.0, 1.0, 1.0]
    assert ranking(labelled([[1.0, 1.0], [2.0, 2.0]]), "dictionary", better="higher")["place"].values.tolist() == [2, 1]


def test_means_are_over_common_seeds_so_that_no_label_gains_by_failing():
    """G fails on the hard seed: over what survived it would be best, on common seeds it is not."""
    values = labelled([[1.0, 1.0, 9.0], [2.0, 2.0, NAN]])
    with pytest.warns(IncompleteWarning, match="1 of 6 runs"):
        found = ranking(values, "dictionary")
    assert found["mean"].values.tolist() == [1.0, 2.0]
    assert found["place"].values.tolist() == [1.0, 2.0]
    assert (int(found["n_common"]), found["n_ok"].values.tolist()) == (2, [3, 2])


def test_a_label_without_any_value_takes_no_part():
    found = ranking(labelled([[1.0, 2.0], [NAN, NAN], [3.0, 1.0]]), "dictionary", missing="drop")
    assert found["place"].values.tolist()[::2] == [1.0, 1.0] or found["place"].values.tolist()[::2] == [1.0, 2.0]
    assert np.isnan(found["place"][1])
    assert (found["best"].values.tolist(), int(found["n_common"])) == ([1, 0, 1], 2)
    nothing = ranking(labelled([[NAN], [NAN]]), "dictionary", missing="drop")
    assert np.isnan(nothing["place"]).all()
    assert int(nothing["n_common"]) == 0


@RELAXED
@given(st.lists(st.permutations([1.0, 2.0, 3.0]), min_size=1, max_size=6))
def test_how_often_each_is_best_adds_up_without_ties(rows):
    found = ranking(labelled(np.array(rows).T), "dictionary")
    assert int(found["best"].sum()) == int(found["n_common"]) == len(rows)
    assert sorted(found["mean"].values) == found["mean"].values[np.argsort(found["place"].values)].tolist()


def test_an_unknown_statistic_is_told_with_those_there_are():
    with pytest.raises(ParameterError, match="`statistic` must be one of mean, std, median, geometric_mean, min, max"):
        ranking(labelled(np.ones((2, 2))), "dictionary", by="average")


# --- units, logarithms, unpaired tests --------------------------------------------------------------------------------


def pooled(values, copies=3):
    """The same seeds at several epsilon, where their errors are all but equal."""
    factors = 1.0 + 1e-9 * np.arange(copies)
    there = labelled(values)
    return there.expand_dims(epsilon=[0.1, 0.2, 0.3][:copies], axis=1) * xr.DataArray(factors, dims="epsilon")


def test_a_seed_that_occurs_in_several_pooled_cells_is_one_pair():
    rng = np.random.default_rng(2)
    values = rng.lognormal(0.0, 1.0, (2, 12)) * np.array([[1.6], [1.0]])
    one, three = (
        compare(labelled(values), "dictionary", "T", "G"),
        compare(pooled(values), "dictionary", "T", "G", ["epsilon", "seed"]),
    )
    for name in ("p_value", "win_rate", "win_ci", "ratio_ci", "log_ratio_ci", "log_ratio_p", "welch_p"):
        np.testing.assert_allclose(three[name], one[name], rtol=1e-6, err_msg=name)
    assert (int(three["n_ok"]), int(three["wins"] + three["losses"])) == (12, 12)
    apart = compare(pooled(values), "dictionary", "T", "G", ["epsilon", "seed"], units=["epsilon", "seed"])
    assert int(apart["n_ok"]) == 36
    assert float(apart["p_value"]) < 0.2 * float(one["p_value"])
    ranks = ranking(pooled(values), "dictionary", ["epsilon", "seed"])
    assert int(ranks["n_common"]) == int(ranks["best"].sum()) == 12


def test_an_unknown_unit_is_told():
    with pytest.raises(InputError, match="`units` must be among seed, got epsilon"):
        compare(labelled(np.ones((2, 6))), "dictionary", "T", "G", units="epsilon")


def test_log_ratios_and_unpaired_tests_are_those_of_scipy():
    rng = np.random.default_rng(3)
    values = rng.lognormal(0.0, 1.0, (2, 15)) * np.array([[2.0], [1.0]])
    found = compare(labelled(values), "dictionary", "T", "G")
    logarithms = np.log(values[0] / values[1])
    assert float(found["log_ratio"]) == pytest.approx(logarithms.mean())
    assert float(found["log_ratio_p"]) == pytest.approx(scipy.stats.ttest_1samp(logarithms, 0.0).pvalue)
    assert float(found["mann_whitney_p"]) == pytest.approx(scipy.stats.mannwhitneyu(*values).pvalue)
    assert float(found["welch_p"]) == pytest.approx(scipy.stats.ttest_ind(*values, equal_var=False).pvalue)
    test = scipy.stats.quantile_test(values[0] / values[1], p=0.5).confidence_interval(0.95)
    np.testing.assert_allclose(found["median_ratio_ci"], [test.low, test.high])
    values[0, :3], values[1, 3:6] = NAN, NAN  # nine pairs; twelve values of each
    gaps = compare(labelled(values), "dictionary", "T", "G", missing="drop")
    assert int(gaps["n_ok"]) == 9
    expected = scipy.stats.mannwhitneyu(values[0, 3:], np.delete(values[1], [3, 4, 5])).pvalue
    assert float(gaps["mann_whitney_p"]) == pytest.approx(expected)


def test_the_gains_of_the_papers_main_table_are_settled_from_few_seeds_on():
    """What docs/tutorials/paper.md says: from 6, 6 and 7 seeds on the interval of T/G does not hold 1."""
    with evs.open(Path(__file__).parents[2] / "data/results/oscillatory_1d.nc") as data:
        errors = data["error"].load()
    settled = [
        compare(errors.isel(seed=slice(count)), "dictionary", "transnet", "gtransnet")["ratio_ci"][:, 0] > 1.0
        for count in range(6, 21)
    ]
    from_on = np.array(settled)[::-1].cumprod(axis=0).sum(axis=0)
    assert (21 - from_on).tolist() == [6, 6, 7]
    assert errors["epsilon"].values.tolist() == [0.2, 0.1, 0.05]

"""Statistics over labels: against NumPy and SciPy on the values that are there, and never without saying how many."""

import warnings

import numpy as np
import pytest
import scipy.stats
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import evogt_study as evs
from evogt_study.analysis.statistics import (
    IncompleteWarning,
    Interval,
    UndefinedIntervalWarning,
    summary,
)
from evogt_study.errors import IncompleteError, InputError, ParameterError

NAN = np.nan
ATTRIBUTES = {"units": "m", "long_name": "error of the run"}


def labelled(values, dims=("family", "seed"), **coords):
    values = np.asarray(values)
    return xr.DataArray(values, dims=dims[-values.ndim :], coords=coords, name="error", attrs=ATTRIBUTES)


def quiet(values, over="seed"):
    """The summary without its warning, which tests of their own look at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)
        return summary(values, over)


def drawn(*shape, seed=0):
    """Errors as they come: positive and skewed over decades."""
    return np.random.default_rng(seed).lognormal(-7.0, 2.0, shape)


# --- against NumPy and SciPy ------------------------------------------------------------------------------------------


def test_each_statistic_is_that_of_numpy():
    values = drawn(4, 20)
    found = summary(labelled(values))
    np.testing.assert_allclose(found["mean"], np.mean(values, axis=1), rtol=1e-14)
    np.testing.assert_allclose(found["std"], np.std(values, axis=1, ddof=1), rtol=1e-13)
    np.testing.assert_array_equal(found["median"], np.median(values, axis=1))
    assert found["n_ok"].values.tolist() == found["n_planned"].values.tolist() == [20] * 4


def test_a_case_that_can_be_done_in_the_head():
    found = summary(labelled([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]))
    assert (float(found["mean"]), float(found["median"])) == (5.0, 4.5)
    assert float(found["std"]) == pytest.approx(np.sqrt(32 / 7))  # divisor 7, not 8
    assert int(found["n_ok"]) == int(found["n_planned"]) == 8


@pytest.mark.parametrize("count", range(2, 9))
def test_medians_of_odd_and_even_numbers_of_runs(count):
    values = drawn(3, count, seed=count)
    np.testing.assert_array_equal(summary(labelled(values))["median"], np.median(values, axis=1))


floats = st.floats(-1e6, 1e6) | st.just(NAN) | st.just(np.inf) | st.just(-np.inf)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(1, 7).flatmap(lambda n: arrays(float, (3, n), elements=floats)))
def test_missing_runs_are_left_out_of_every_statistic(values):
    found = quiet(labelled(values))
    for row, kept in enumerate([own[~np.isnan(own)] for own in values]):
        one = found.isel(family=row)
        finite = bool(np.isfinite(kept).all())
        assert int(one["n_ok"]) == len(kept)
        assert int(one["n_planned"]) == values.shape[1]
        # sums of millions lose a few units in the last place, and cancellation leaves that much of the spread
        scale = 1e-13 * max(1.0, np.abs(kept).max(initial=0.0)) if finite else 0.0
        std = np.std(kept, ddof=1) if finite and len(kept) > 1 else NAN
        with np.errstate(invalid="ignore"):  # inf - inf
            mean, median = (np.mean(kept), np.median(kept)) if len(kept) else (NAN, NAN)
        np.testing.assert_allclose(one["mean"], mean, rtol=1e-12, atol=scale)
        np.testing.assert_allclose(one["std"], std, rtol=1e-9, atol=scale)
        np.testing.assert_array_equal(one["median"], median)
        two_valued = bool(np.isin(values[~np.isnan(values)], (0, 1)).all()) and len(kept) > 0
        assert np.isnan(one["ci"]).all() == (not two_valued and (len(kept) < 2 or not finite))


@pytest.mark.filterwarnings("error")
def test_infinite_values_are_of_the_sample():
    """An upper bound that cannot be had is infinite: the others alone would be a statistic of survivors."""
    squares = ["std", "ci", "mean_se", "median_se", "std_ci"]
    every = ["mean", "median", "median_ci", "q90", "max", "geometric_mean", *squares]
    bounds = labelled([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0] + [np.inf] * 4, np.arange(10.0)])
    both, alone = summary(bounds, statistics=every), summary(bounds[1:], statistics=every)
    xr.testing.assert_identical(both.isel(family=[1]), alone)
    one = both.isel(family=0)
    assert [float(one[name]) for name in ("mean", "median", "q90", "max")] == [np.inf, 5.5, np.inf, np.inf]
    assert one["median_ci"].values.tolist() == [2.0, np.inf]
    assert all(np.isnan(one[name]).all() for name in squares)
    assert (int(one["n_ok"]), int(one["n_planned"]), one["note"].item()) == (
        10,
        10,
        "infinite values; interval of std too short for skewed values",
    )


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint8, bool])
def test_numbers_of_every_kind(dtype):
    values = np.array([[0, 1, 1, 1], [1, 0, 0, 1]]).astype(dtype)
    found = summary(labelled(values))
    np.testing.assert_allclose(found["mean"], [0.75, 0.5])
    np.testing.assert_allclose(found["std"], [0.5, np.sqrt(1 / 3)])


def test_single_precision_is_summed_in_double():
    values = np.full(1000, 0.1, dtype=np.float32)
    assert float(summary(labelled(values))["mean"]) == pytest.approx(float(np.float32(0.1)), rel=1e-12)


# --- few runs, equal runs, no runs ------------------------------------------------------------------------------------


def test_one_run_has_a_mean_and_no_spread():
    found = summary(labelled([[3.0], [4.0]]))
    assert found["mean"].values.tolist() == found["median"].values.tolist() == [3.0, 4.0]
    assert np.isnan(found["std"]).all()
    assert np.isnan(found["ci"]).all()
    assert found["n_ok"].values.tolist() == [1, 1]


def test_one_run_that_is_left_of_several_has_no_spread_either():
    found = quiet(labelled([3.0, NAN, NAN]))
    assert float(found["mean"]) == 3.0
    assert np.isnan(found["std"]).all()
    assert np.isnan(found["ci"]).all()
    assert (int(found["n_ok"]), int(found["n_planned"])) == (1, 3)


def test_equal_values_have_no_spread_and_an_interval_of_no_length():
    found = summary(labelled([[0.1] * 7, [0.0] * 7]))
    np.testing.assert_allclose(found["mean"], [0.1, 0.0], rtol=1e-15)
    np.testing.assert_allclose(found["std"], [0.0, 0.0], atol=1e-16)
    np.testing.assert_allclose(found["ci"], [[0.1, 0.1], [0.0, 0.0]], rtol=1e-14)


def test_where_all_runs_are_missing_nothing_is_zero():
    found = quiet(labelled([[NAN, NAN], [1.0, 2.0]]))
    for name in ("mean", "std", "median"):
        assert np.isnan(found[name][0])
        assert np.isfinite(found[name][1])
    assert np.isnan(found["ci"][0]).all()
    assert found["n_ok"].values.tolist() == [0, 2]
    assert found["n_planned"].values.tolist() == [2, 2]


def test_where_no_runs_are_planned_nothing_is_zero_but_their_number():
    found = summary(labelled(np.zeros((2, 0))))
    assert np.isnan(found["mean"]).all()
    assert np.isnan(found["median"]).all()
    assert found["n_planned"].values.tolist() == [0, 0]


def test_no_other_points_give_an_empty_summary():
    assert summary(labelled(np.zeros((0, 3))))["mean"].shape == (0,)


@pytest.mark.parametrize("scale", [1e-300, 1e150, 1e200, 4e307])
def test_errors_of_any_size_are_summed_up_without_a_warning(scale):
    """A run that grows without bound is finite for a while; what is too large for a double may be infinite."""
    found = summary(labelled(np.array([1.0, 2.0, 4.0]) * scale))
    assert float(found["median"]) == pytest.approx(2.0 * scale)
    assert not np.isnan(found["mean"])


# --- what is missing is told ------------------------------------------------------------------------------------------


def test_missing_runs_are_told_with_their_number():
    with pytest.warns(IncompleteWarning, match=r"^3 of 6 runs have no `error`; they are left out, see n_ok$"):
        summary(labelled([[1.0, NAN, 2.0], [NAN, NAN, 1.0]]))


def test_complete_runs_are_told_by_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary(labelled(drawn(2, 5)))


def test_a_failed_run_is_missing_in_every_variable_whatever_its_kind(tmp_path):
    """An integer has no NaN; a run without a rank still must not count as one with some rank."""
    from evogt_study.results.dataset import dataset
    from evogt_study.results.table import Table
    from evogt_study.study.plan import study_plan
    from evogt_study.workers.batch import Batch, compute_here

    source = "def f(seed):\n    assert seed != 1\n    return {'rank': 10 + seed, 'fine': seed > 1, 'error': 0.5}\n"
    (tmp_path / "own.py").write_text(source)
    axes = "[axes]\nseed = [0, 1, 2]\n"
    study = evs.Study.from_text(f'name = "own"\nmethod = "own.py:f"\n{axes}', str(tmp_path / "s.toml"))
    plan = study_plan(study)
    table = Table(plan)
    table.add(compute_here(Batch.of(plan.spec, list(plan.cases()))))
    data = dataset(table, study)
    for name, mean in {"rank": 11.0, "fine": 0.5, "error": 0.5}.items():
        found = quiet(data[name])
        assert (int(found["n_ok"]), int(found["n_planned"]), float(found["mean"])) == (2, 3, mean), name


def test_the_policy_says_what_becomes_of_missing_runs():
    values = labelled([[1.0, NAN, 2.0], [3.0, 2.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dropped = summary(values, missing="drop")
    assert dropped["n_ok"].values.tolist() == [2, 3]
    with pytest.raises(IncompleteError, match=r"^1 of 6 runs have no `error`; `evogt status` says why"):
        summary(values, missing="raise")
    assert summary(labelled(drawn(2, 3)), missing="raise")["n_ok"].values.tolist() == [3, 3]
    with pytest.raises(ParameterError, match="`missing` must be one of warn, raise, drop, got 'ignore'"):
        summary(values, missing="ignore")


# --- which statistics -------------------------------------------------------------------------------------------------


def test_only_those_asked_for_in_their_order_with_counts():
    values = drawn(2, 9)
    found = summary(labelled(values), statistics=["q25", "max", "geometric_mean", "min", "q97.5"])
    assert list(found.data_vars) == ["q25", "max", "geometric_mean", "min", "q97.5", "n_ok", "n_planned"]
    np.testing.assert_allclose(found["q25"], np.quantile(values, 0.25, axis=1))
    np.testing.assert_allclose(found["q97.5"], np.quantile(values, 0.975, axis=1))
    np.testing.assert_allclose(found["geometric_mean"], scipy.stats.gmean(values, axis=1))
    assert found["q25"].attrs["long_name"] == "25 % quantile over seed of error of the run"
    assert "bound" not in found.coords


@pytest.mark.parametrize("name", ["average", "q101", "q", "q-5", ""])
def test_an_unknown_statistic_is_told_with_those_there_are(name):
    with pytest.raises(ParameterError) as caught:
        summary(labelled(drawn(2, 3)), statistics=["mean", name])
    assert str(caught.value) == (
        "`statistic` must be one of mean, std, median, geometric_mean, min, max, a quantile in percent like q25, "
        f"one of these with _ci or _se, or ci, got {name!r}"
    )


def test_an_interval_of_another_kind_says_so():
    values = labelled(drawn(2, 9))
    found = summary(values, statistics=["ci"], interval=Interval("median", "bca", confidence=0.995, resamples=99))
    assert found["ci"].attrs["long_name"].startswith("99.5% confidence interval (bca bootstrap) of the median over")
    assert found["ci"].attrs["comment"] == "NaN below two units"


def test_an_interval_that_is_not_defined_is_told():
    """All resampled medians are on one side of a sample whose values but one are equal: bca is then 0/0."""
    values = labelled([[1.0] * 9 + [5.0], list(range(10))])
    with pytest.warns(UndefinedIntervalWarning, match="^1 of 2 samples have no bca interval of the median"):
        found = summary(values, statistics=["ci"], interval=Interval("median", "bca"))
    assert np.isnan(found["ci"][0]).all()
    assert np.isfinite(found["ci"][1]).all()


# --- dimensions -------------------------------------------------------------------------------------------------------


def test_over_several_dimensions_in_any_order():
    values = labelled(drawn(2, 3, 4), dims=("family", "epsilon", "seed"))
    pooled = values.values.transpose(1, 0, 2).reshape(3, 8)
    for over in (["family", "seed"], ("seed", "family"), iter(["seed", "family"])):
        found = summary(values, over)
        assert found["mean"].dims == ("epsilon",)
        np.testing.assert_allclose(found["mean"], pooled.mean(axis=1), rtol=1e-14)
        np.testing.assert_allclose(found["std"], pooled.std(axis=1, ddof=1), rtol=1e-13)
        np.testing.assert_array_equal(found["median"], np.median(pooled, axis=1))
        assert found["n_planned"].values.tolist() == [4] * 3  # seeds


@pytest.mark.parametrize("missing", [False, True])
def test_over_all_dimensions(missing):
    values = drawn(2, 7)
    if missing:
        values[0, 1] = NAN
    found = quiet(labelled(values), ["family", "seed"])
    assert found["mean"].dims == ()
    assert found["ci"].dims == ("bound",)
    assert float(found["mean"]) == pytest.approx(np.nanmean(values[0]) / 2 + values[1].mean() / 2, rel=0.2)
    assert np.isfinite(found["ci"]).all()
    assert (int(found["n_ok"]), int(found["n_planned"])) == (7 - missing, 7)  # seeds with both of their runs


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_over_a_dimension_wherever_it_stands(axis):
    values = drawn(2, 3, 4)
    found = summary(labelled(values, dims=("a", "b", "c")), "abc"[axis])
    np.testing.assert_allclose(found["mean"], values.mean(axis=axis), rtol=1e-14)
    assert found["mean"].dims == tuple(name for name in "abc" if name != "abc"[axis])


@pytest.mark.parametrize(
    ("over", "got"),
    [("sed", "sed"), (["seed", "family", "tau"], "tau"), (["a", "b"], "a, b"), (None, "None"), ([5, "seed"], "5")],
)
def test_an_unknown_dimension_is_told_with_those_there_are(over, got):
    with pytest.raises(InputError) as caught:
        summary(labelled(drawn(2, 3)), over)
    assert str(caught.value) == f"`over` must name dimensions of error (family, seed), got {got}"


def test_no_dimension_at_all_is_refused():
    with pytest.raises(InputError, match=r"`over` must name dimensions of error \(family, seed\), got no name"):
        summary(labelled(drawn(2, 3)), [])


def test_a_dimension_named_twice_is_that_dimension():
    values = labelled(drawn(2, 3))
    try:
        found = summary(values, ["seed", "seed"])
    except InputError:
        return  # refused by name is as good
    xr.testing.assert_identical(found["mean"], summary(values)["mean"])


def test_one_statistic_is_no_list_of_letters():
    values = labelled(drawn(2, 3))
    xr.testing.assert_identical(summary(values, statistics="mean"), summary(values, statistics=["mean"]))


@pytest.mark.parametrize(
    "values", [np.array(["a", "b"]), np.array([1j, 2j]), np.array([None, 1.0])], ids=["U", "c", "O"]
)
def test_what_is_no_number_is_refused(values):
    with pytest.raises(InputError, match=r"`error` must hold numbers, got "):
        summary(labelled(values))


@pytest.mark.parametrize(
    ("count", "of_mean"), [(5, "few seeds: 5 (Student's interval)"), (9, "few seeds: 9"), (10, "")]
)
def test_few_seeds_and_intervals_of_the_standard_deviation_are_noted(count, of_mean):
    values = labelled(np.linspace(1.0, 2.0, count))
    assert summary(values)["note"].item() == of_mean
    short = "interval of std too short for skewed values"
    for names in (("std_ci",), ("ci", "std_ci")):
        assert summary(values, statistics=names)["note"].item().split("; ")[-1] == short


def test_fewer_than_six_seeds_have_students_interval():
    values = np.array([1.0, 2.0, 4.0])
    low, high = summary(labelled(values))["ci"].values
    expected = scipy.stats.t.interval(0.95, 2, values.mean(), scipy.stats.sem(values))
    np.testing.assert_allclose([low, high], expected, rtol=1e-12)
    assert np.isnan(summary(labelled(values))["median_ci"]).all()


def test_the_label_names_the_method_that_was_used():
    values = labelled(drawn(2, 12))
    one, pooled = summary(values, statistics=["std_ci"]), summary(values, ["family", "seed"], statistics=["std_ci"])
    assert one["std_ci"].attrs["long_name"].startswith("95% confidence interval (Bonett) of the sample")
    assert (
        pooled["std_ci"].attrs["long_name"].startswith("95% confidence interval (percentile bootstrap) of the sample")
    )


def test_zeros_and_ones_are_a_share_whatever_their_type():
    """All ones of 20 have Wilson's interval, and not a point."""
    ones = summary(labelled(np.ones(20)))["ci"].values
    limits = scipy.stats.binomtest(20, 20).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose(ones, [limits.low, limits.high], rtol=1e-12)
    pooled = summary(labelled(np.repeat((np.arange(20) > 2).astype(float)[None], 3, axis=0)), ["family", "seed"])["ci"]
    single = summary(labelled((np.arange(20) > 2).astype(float)))["ci"]
    assert float(pooled[1] - pooled[0]) > 0.95 * float(single[1] - single[0])  # equal values of a seed count once
    assert summary(labelled(np.full(20, 2.0)))["ci"].values.tolist() == [2.0, 2.0]


def test_a_failed_run_does_not_drop_its_seed():
    """Twelve setups of 20 seeds, whose values are correlated within a seed: one failed run costs one run."""
    rng = np.random.default_rng(0)
    z = np.arange(12.0)[:, None] + 0.95 * rng.normal(size=20) + 0.3 * rng.normal(size=(12, 20))
    lost = z.copy()
    lost[rng.random(z.shape) < 0.05] = NAN
    options = {"over": ["family", "seed"], "missing": "drop", "statistics": ["mean", "ci"]}
    names = {"family": [str(i) for i in range(12)]}
    whole, blocks, setups, omit = (
        summary(labelled(each, **names), incomplete=how, **options)
        for each, how in ((z, "blocks"), (lost, "blocks"), (lost, "setups"), (lost, "omit"))
    )
    assert abs(float(blocks["mean"] - whole["mean"])) < 0.05
    assert abs(float(setups["mean"] - whole["mean"])) < 0.1
    width = [float(each["ci"][1] - each["ci"][0]) for each in (whole, blocks, omit)]
    assert width[1] < 1.1 * width[0] < 1.1 * width[2]
    assert int(blocks["n_ok"]) == int(omit["n_ok"]) < 20
    lost[3] = NAN  # a setup without any value has no mean, and so has the pool
    assert np.isnan(summary(labelled(lost, **names), **options)["mean"])
    with pytest.raises(ParameterError, match="`incomplete` must be one of blocks, setups, omit, got 'drop'"):
        summary(labelled(lost, **names), incomplete="drop")


def test_the_mean_of_truth_values_has_wilsons_interval():
    right = np.array([True] * 7 + [False] * 3)
    limits = scipy.stats.binomtest(7, 10).proportion_ci(0.95, "wilson")
    found = summary(labelled(right))
    np.testing.assert_allclose(found["ci"], [limits.low, limits.high], rtol=1e-12)
    assert found["ci"].attrs["long_name"].startswith("95% confidence interval (Wilson) of the mean")
    stored = labelled(np.append(right.astype(float), NAN))  # as a file has them where a run is missing
    stored.attrs["flag_meanings"] = "false true"
    xr.testing.assert_equal(summary(stored, missing="drop")["ci"], found["ci"])
    student = summary(labelled(right), interval=Interval(method="student"))["ci"]
    assert float(student[1]) > 1.0
    assert np.isfinite(summary(labelled(right[:5]))["ci"]).all()


def test_pooled_means_have_equal_weights_whatever_failed():
    """Half of the seeds failed at the epsilon of large errors: a mean of all values that are left would be 34."""
    values = labelled([[1.0] * 10, [100.0] * 5 + [NAN] * 5], dims=("epsilon", "seed"))
    found = summary(values, ["epsilon", "seed"], missing="drop")
    complete = summary(values[:, :5], ["epsilon", "seed"])
    assert (int(found["n_ok"]), int(found["n_planned"])) == (5, 10)
    for name in ("std", "median", "median_ci"):
        np.testing.assert_array_equal(found[name], complete[name])
    assert float(found["mean"]) == pytest.approx(50.5)
    each = summary(values, ["epsilon", "seed"], units=["epsilon", "seed"], missing="drop")
    assert (float(each["mean"]), int(each["n_ok"])) == (34.0, 15)


# --- labels -----------------------------------------------------------------------------------------------------------


def test_coordinates_of_what_is_left_are_kept():
    values = labelled(
        drawn(2, 3, 4),
        dims=("family", "epsilon", "seed"),
        family=["a", "b"],
        epsilon=[0.2, 0.1, 0.05],
        seed=range(4),
        gamma=(("family", "epsilon"), np.arange(6.0).reshape(2, 3)),
        drawn=(("family", "seed"), np.zeros((2, 4))),
        tau=1e-12,
    )
    found = summary(values)
    assert set(found.coords) == {"family", "epsilon", "gamma", "tau", "bound"}
    assert found["family"].values.tolist() == ["a", "b"]
    assert found["gamma"].dims == ("family", "epsilon")
    assert float(found["tau"]) == 1e-12
    assert found["mean"].sel(family="b", epsilon=0.05).size == 1


def test_units_and_names_say_what_each_number_is():
    found = summary(labelled(drawn(2, 3)))
    units = {name: found[name].attrs["units"] for name in found.data_vars}
    assert {name for name, unit in units.items() if unit == "m"} == {"mean", "std", "median", "ci", "median_ci"}
    assert set(units) - {"mean", "std", "median", "ci", "median_ci"} == {
        "n_ok", "n_planned", "note", "largest_share", "tail_index",
    }  # fmt: skip
    names = {name: found[name].attrs["long_name"] for name in found.data_vars}
    assert names["mean"] == "mean over seed of error of the run"
    assert names["std"] == "sample standard deviation (divisor n - 1) over seed of error of the run"
    assert names["ci"] == "95% confidence interval (bootstrap-t) of the mean over seed of error of the run"
    assert all("over seed of error of the run" in name for name in names.values())
    assert found["bound"].values.tolist() == ["lower", "upper"]


def test_several_dimensions_are_named_and_missing_attributes_are_made_up_for():
    found = summary(xr.DataArray(drawn(2, 3), dims=("a", "b"), name="v"), ["b", "a"])
    assert found["mean"].attrs == {"long_name": "mean over b, a of v", "units": "1"}


def test_the_public_name():
    assert evs.summary is summary


@pytest.mark.parametrize("name", ["mean", "n_ok", "runs_planned", "note"])
def test_an_axis_with_the_name_of_a_number_is_refused(name):
    values = labelled(drawn(2, 8), dims=(name, "seed"), **{name: [1.0, 2.0]})
    with pytest.raises(InputError, match=f"`{name}` must be another name, since a table along it has a column"):
        summary(values, over="seed")
    assert summary(values.rename({name: "m"}), over="seed")["mean"].shape == (2,)

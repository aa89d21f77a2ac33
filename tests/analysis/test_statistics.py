"""Statistics over named dimensions: against NumPy and SciPy on the values that are there, always with their number."""

import warnings

import numpy as np
import pytest
import scipy.stats
import xarray as xr

import evogt_study as evs
from evogt_study.analysis.statistics import IncompleteWarning, Interval, summary
from evogt_study.errors import IncompleteError

NAN = np.nan
ATTRIBUTES = {"units": "m", "long_name": "error of the run"}


def make_array(values, dims=("family", "seed"), **coords):
    values = np.asarray(values)
    return xr.DataArray(values, dims=dims[-values.ndim :], coords=coords, name="error", attrs=ATTRIBUTES)


def summarise_quietly(values, over="seed", **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteWarning)
        return summary(values, over, **options)


def draw_values(*shape, seed=0):
    """Errors as they come: positive and skewed over decades."""
    return np.random.default_rng(seed).lognormal(-7.0, 2.0, shape)


# --- against NumPy and SciPy ------------------------------------------------------------------------------------------


def test_statistics_equal_numpys_in_the_order_of_the_request():
    values = draw_values(4, 20)
    references = {
        "mean": np.mean(values, axis=1), "std": np.std(values, axis=1, ddof=1), "median": np.median(values, axis=1),
        "q25": np.quantile(values, 0.25, axis=1), "max": values.max(axis=1),
        "geometric_mean": scipy.stats.gmean(values, axis=1), "min": values.min(axis=1),
        "q97.5": np.quantile(values, 0.975, axis=1),
    }  # fmt: skip
    found = summary(make_array(values), statistics=list(references))
    for name, reference in references.items():
        np.testing.assert_allclose(found[name], reference, rtol=1e-13, err_msg=name)
    assert list(found.data_vars) == [*references, "n_ok", "n_planned"]
    assert found["n_ok"].values.tolist() == found["n_planned"].values.tolist() == [20] * 4
    xr.testing.assert_identical(summary(make_array(values), statistics="mean")["mean"], found["mean"])


@pytest.mark.filterwarnings("error")
def test_infinite_values_belong_to_the_sample():
    """An upper bound that does not exist is infinite: the others alone would be a statistic of survivors."""
    squares = ["std", "ci", "mean_se", "median_se", "std_ci"]
    every = ["mean", "median", "median_ci", "q90", "max", "geometric_mean", *squares]
    bounds = make_array([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0] + [np.inf] * 4, np.arange(10.0)])
    both, alone = summary(bounds, statistics=every), summary(bounds[1:], statistics=every)
    xr.testing.assert_identical(both.isel(family=[1]), alone)
    one = both.isel(family=0)
    assert [float(one[name]) for name in ("mean", "median", "q90", "max")] == [np.inf, 5.5, np.inf, np.inf]
    assert one["median_ci"].values.tolist() == [2.0, np.inf]
    assert all(np.isnan(one[name]).all() for name in squares)
    assert one["note"].item() == "infinite values; the interval of std is too short for skewed values"


# --- few, equal and missing runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "mean", "std", "ci", "n_ok"),
    [
        ([3.0], 3.0, NAN, NAN, 1),
        ([3.0, NAN, NAN], 3.0, NAN, NAN, 1),
        ([NAN, NAN], NAN, NAN, NAN, 0),
        ([], NAN, NAN, NAN, 0),
        ([0.1] * 7, 0.1, 0.0, 0.1, 7),
        ([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0], 5.0, np.sqrt(32 / 7), None, 8),  # divisor 7
    ],
)
def test_of_few_or_equal_runs(values, mean, std, ci, n_ok):
    found = summarise_quietly(make_array(np.array(values, dtype=float)))
    np.testing.assert_allclose([found["mean"], found["std"]], [mean, std], rtol=1e-14, atol=1e-16)
    assert (int(found["n_ok"]), int(found["n_planned"])) == (n_ok, len(values))
    if ci is not None:
        np.testing.assert_allclose(found["ci"], [ci, ci], rtol=1e-14)
    assert summary(make_array(np.zeros((0, 3))))["mean"].shape == (0,)


def test_missing_runs_follow_the_policy():
    values = make_array([[1.0, NAN, 2.0], [3.0, 2.0, 1.0]])
    with pytest.warns(
        IncompleteWarning, match=r"^1 of 6 runs have no `error`. The statistics leave them out, see n_ok$"
    ):
        summary(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert summary(values, missing="drop")["n_ok"].values.tolist() == [2, 3]
        assert summary(values[1:], missing="raise")["n_ok"].values.tolist() == [3]
    with pytest.raises(IncompleteError, match=r"^1 of 6 runs have no `error`\. See `evogt status`"):
        summary(values, missing="raise")


def test_a_failed_run_is_missing_in_every_variable_whatever_its_kind(own_study, result_of, tmp_path):
    """An integer has no NaN; a run without a rank still must not count as one with some rank."""
    source = "def method(seed):\n    assert seed != 1\n    return {'rank': 10 + seed, 'fine': seed > 1, 'error': 0.5}\n"
    with evs.open(result_of(own_study(source, "[axes]\nseed = [0, 1, 2]\n"), tmp_path / "own.nc")) as data:
        for name, mean in {"rank": 11.0, "fine": 0.5, "error": 0.5}.items():
            found = summarise_quietly(data[name])
            assert (int(found["n_ok"]), int(found["n_planned"]), float(found["mean"])) == (2, 3, mean), name


# --- options ----------------------------------------------------------------------------------------------------------


def test_over_several_dimensions_in_any_order():
    values = make_array(draw_values(2, 3, 4), dims=("family", "epsilon", "seed"))
    pooled = values.values.transpose(1, 0, 2).reshape(3, 8)
    for over in (["family", "seed"], ("seed", "family"), iter(["seed", "family", "seed"])):
        found = summary(values, over)
        assert found["mean"].dims == ("epsilon",)
        np.testing.assert_allclose(found["mean"], pooled.mean(axis=1), rtol=1e-14)
        np.testing.assert_allclose(found["std"], pooled.std(axis=1, ddof=1), rtol=1e-13)
        np.testing.assert_array_equal(found["median"], np.median(pooled, axis=1))
        assert found["n_planned"].values.tolist() == [4] * 3  # seeds
    for axis, name in enumerate(("family", "epsilon", "seed")):
        np.testing.assert_allclose(summary(values, name)["mean"], values.values.mean(axis=axis), rtol=1e-14)
    whole = summary(values, ["family", "epsilon", "seed"])
    assert (whole["mean"].dims, whole["ci"].dims, int(whole["n_ok"])) == ((), ("bound",), 4)


# --- intervals and notes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "of_mean"),
    [(5, "few seeds: 5 (Student's interval, the interval of a median needs 6)"), (9, "few seeds: 9"), (10, "")],
)
def test_few_seeds_and_intervals_of_the_standard_deviation_are_noted(count, of_mean):
    values = make_array(np.linspace(1.0, 2.0, count))
    assert summary(values)["note"].item() == of_mean
    for names in (("std_ci",), ("ci", "std_ci")):
        last = summary(values, statistics=names)["note"].item().split("; ")[-1]
        assert last == "the interval of std is too short for skewed values"


def test_fewer_than_six_seeds_have_students_interval():
    values = np.array([1.0, 2.0, 4.0])
    expected = scipy.stats.t.interval(0.95, 2, values.mean(), scipy.stats.sem(values))
    np.testing.assert_allclose(summary(make_array(values))["ci"], expected, rtol=1e-12)
    assert np.isnan(summary(make_array(values))["median_ci"]).all()


def test_zeros_and_ones_are_a_share_whatever_their_type():
    right = np.array([True] * 7 + [False] * 3)
    for values in (right, right.astype(float), np.ones(20)):
        limits = scipy.stats.binomtest(int(values.sum()), len(values)).proportion_ci(0.95, "wilson")
        found = summary(make_array(values))
        np.testing.assert_allclose(found["ci"], [limits.low, limits.high], rtol=1e-12)
        assert found["ci"].attrs["long_name"].startswith("95% confidence interval (Wilson) of the mean")
    stored = make_array(np.append(right.astype(float), NAN))  # as a file has them if a run is missing
    stored.attrs["flag_meanings"] = "false true"
    xr.testing.assert_equal(summary(stored, missing="drop")["ci"], summary(make_array(right))["ci"])
    pooled = summary(make_array(np.repeat((np.arange(20) > 2).astype(float)[None], 3, axis=0)), ["family", "seed"])[
        "ci"
    ]
    single = summary(make_array((np.arange(20) > 2).astype(float)))["ci"]
    assert float(pooled[1] - pooled[0]) > 0.95 * float(single[1] - single[0])  # equal values of a seed count once
    assert summary(make_array(np.full(20, 2.0)))["ci"].values.tolist() == [2.0, 2.0]
    assert float(summary(make_array(right), interval=Interval(method="student"))["ci"][1]) > 1.0


# --- pooled means -----------------------------------------------------------------------------------------------------


def test_a_failed_run_does_not_drop_its_seed():
    """Twelve setups of 20 seeds, whose values are correlated within a seed: one failed run costs one run."""
    rng = np.random.default_rng(0)
    z = np.arange(12.0)[:, None] + 0.95 * rng.normal(size=20) + 0.3 * rng.normal(size=(12, 20))
    lost = z.copy()
    lost[rng.random(z.shape) < 0.05] = NAN
    options = {"over": ["family", "seed"], "missing": "drop", "statistics": ["mean", "ci"]}
    whole, blocks, setups, omit = (
        summary(make_array(each), incomplete=how, **options)
        for each, how in ((z, "blocks"), (lost, "blocks"), (lost, "setups"), (lost, "omit"))
    )
    assert abs(float(blocks["mean"] - whole["mean"])) < 0.05
    assert abs(float(setups["mean"] - whole["mean"])) < 0.1
    width = [float(each["ci"][1] - each["ci"][0]) for each in (whole, blocks, omit)]
    assert width[1] < 1.1 * width[0] < 1.1 * width[2]
    assert int(blocks["n_ok"]) == int(omit["n_ok"]) < 20
    lost[3] = NAN  # a setup without any value has no mean, and so has the pool
    assert np.isnan(summary(make_array(lost), **options)["mean"])


def test_pooled_means_have_equal_weights_whatever_failed():
    """Half of the seeds failed at the epsilon of large errors: a mean of all values that are left would be 34."""
    values = make_array([[1.0] * 10, [100.0] * 5 + [NAN] * 5], dims=("epsilon", "seed"))
    found, complete = summarise_quietly(values, ["epsilon", "seed"]), summary(values[:, :5], ["epsilon", "seed"])
    assert (float(found["mean"]), int(found["n_ok"]), int(found["n_planned"])) == (pytest.approx(50.5), 5, 10)
    for name in ("std", "median", "median_ci"):
        np.testing.assert_array_equal(found[name], complete[name])
    each = summarise_quietly(values, ["epsilon", "seed"], units=["epsilon", "seed"])
    assert (float(each["mean"]), int(each["n_ok"])) == (34.0, 15)


# --- labels -----------------------------------------------------------------------------------------------------------


def test_coordinates_that_remain_are_kept_and_names_and_units_describe_each_number():
    gamma = (("family", "epsilon"), np.arange(6.0).reshape(2, 3))
    values = make_array(
        draw_values(2, 3, 12), dims=("family", "epsilon", "seed"), family=["a", "b"], epsilon=[0.2, 0.1, 0.05],
        seed=range(12), gamma=gamma, drawn=(("family", "seed"), np.zeros((2, 12))), tau=1e-12,
    )  # fmt: skip
    found = summary(values)
    assert set(found.coords) == {"family", "epsilon", "gamma", "tau", "bound"}
    assert found["gamma"].dims == ("family", "epsilon")
    assert found["bound"].values.tolist() == ["lower", "upper"]
    units = {name: found[name].attrs["units"] for name in found.data_vars}
    assert {name for name, unit in units.items() if unit == "m"} == {"mean", "std", "median", "ci", "median_ci"}
    assert found["std"].attrs["long_name"] == "sample standard deviation (divisor n - 1) over seed of error of the run"
    label = found["ci"].attrs["long_name"]
    assert label == "95% confidence interval (bootstrap-t) of the mean over seed of error of the run"
    for over, method in (("seed", "Bonett"), (["family", "seed"], "percentile bootstrap")):
        label = summary(values, over, statistics="std_ci")["std_ci"].attrs["long_name"]
        assert label.startswith(f"95% confidence interval ({method}) of the sample")
    plain = summary(xr.DataArray(draw_values(2, 3), dims=("a", "b"), name="v"), ["b", "a"])["mean"]
    assert plain.attrs == {"long_name": "mean over b, a of v", "units": "1"}

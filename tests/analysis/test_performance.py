"""Performance of estimators, shares of runs with a property, and methods over many problems."""

import math

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.errors import InputError, ParameterError

NAN = np.nan


def make_array(values, **attrs):
    return xr.DataArray(values, dims="seed", name="estimate", attrs=attrs)


def by_definition(b, se, truth, z=1.959963984540054):
    """Table 6 of Morris, White & Crowther (2019), and the formulas of R's rsimsum 0.11, one run after the other."""
    n = len(b)
    mean = math.fsum(b) / n
    square = math.fsum((x - mean) ** 2 for x in b)
    mse = math.fsum((x - truth) ** 2 for x in b) / n
    model = math.sqrt(math.fsum(s**2 for s in se) / n)
    v_mean = math.fsum(s**2 for s in se) / n
    v_var = math.fsum((s**2 - v_mean) ** 2 for s in se) / (n - 1)
    emp = math.sqrt(square / (n - 1))
    cover = sum(x - z * s <= truth <= x + z * s for x, s in zip(b, se, strict=True)) / n
    becover = sum(x - z * s <= mean <= x + z * s for x, s in zip(b, se, strict=True)) / n
    power = sum(abs(x) > z * s for x, s in zip(b, se, strict=True)) / n
    found = {
        "bias": (mean - truth, math.sqrt(square / (n * (n - 1)))),
        "relative_bias": ((mean - truth) / truth, math.sqrt(square / (n * (n - 1))) / abs(truth)),
        "empirical_se": (emp, emp / math.sqrt(2 * (n - 1))),
        "mse": (mse, math.sqrt(math.fsum(((x - truth) ** 2 - mse) ** 2 for x in b) / (n * (n - 1)))),
        "model_se": (model, math.sqrt(v_var / (4 * n * model**2))),
        "relative_error_se": (model / emp - 1, model / emp * math.sqrt(v_var / (4 * n * model**4) + 1 / (2 * (n - 1)))),
    }
    shares = {"coverage": cover, "bias_eliminated_coverage": becover, "power": power}
    return found | {name: (p, math.sqrt(p * (1 - p) / n)) for name, p in shares.items()}


def test_every_measure_is_its_definition():
    rng = np.random.default_rng(1)
    b, se = rng.normal(0.55, 0.15, 400), rng.uniform(0.1, 0.2, 400)
    found = evs.performance(make_array(b), 0.5, se=make_array(se))
    for name, (value, error) in by_definition(b.tolist(), se.tolist(), 0.5).items():
        assert float(found[name]) == pytest.approx(value, rel=1e-10), name
        assert float(found[f"{name}_mcse"]) == pytest.approx(error, rel=1e-10), name
    assert float(found.rmse) == pytest.approx(math.sqrt(float(found.mse)))


def test_a_failed_run_is_not_uncovered():
    b, se = make_array([1.0, 2.0, 3.0, NAN, 9.0]), make_array([0.6, 0.6, 0.6, 0.6, NAN])
    found = evs.performance(b, 1.5, se=se)
    assert (int(found.n_ok), int(found.n_planned), int(found.failed)) == (3, 5, 2)
    assert float(found.coverage) == pytest.approx(2 / 3)
    assert float(found.bias) == pytest.approx(0.5)
    planned = xr.DataArray([True] * 4 + [False], dims="seed")
    assert int(evs.performance(b, 1.5, se=se, planned=planned).failed) == 1
    keys = xr.DataArray(["a", "a", "b", "c", "d"], dims="seed")  # the first two cases share a run
    found = evs.performance(b, 1.5, se=se, planned=keys)
    assert (int(found.n_ok), int(found.n_planned), float(found.bias)) == (2, 4, pytest.approx(0.5))


def test_truth_and_limits_of_each_run_and_other_dimensions_stay():
    rng = np.random.default_rng(2)
    truth = xr.DataArray([0.0, 5.0], dims="theta", coords={"theta": [0.0, 5.0]})
    b = (truth + xr.DataArray(rng.normal(size=(2, 50)), dims=("theta", "seed"))).rename("b")
    found = evs.performance(b, truth, lower=b - 2.0, upper=b + 2.0)
    assert found.coverage.dims == ("theta",)
    assert found.power.values[1] == 1.0
    assert ((found.coverage_ci[:, 0] <= found.coverage) & (found.coverage <= found.coverage_ci[:, 1])).all()
    assert not np.isfinite(found.relative_bias[0])
    with pytest.raises(InputError, match="`b` has no axis `run`"):
        evs.performance(b, truth, "run")


@pytest.mark.slow
def test_monte_carlo_errors_are_the_spread_of_the_measures():
    """2,000 studies of 200 runs.  Last result: ratios 0.99 to 1.01, 2026-11-26."""
    data = np.random.default_rng(7).standard_normal((2000, 200, 10)) + 0.3
    b, se = (xr.DataArray(v, dims=("study", "seed")) for v in (data.mean(-1), data.std(-1, ddof=1) / np.sqrt(10)))
    found = evs.performance(b.rename("b"), 0.3, se=se)
    for name in [str(name) for name in found if f"{name}_mcse" in found]:
        ratio = float(found[f"{name}_mcse"].mean() / found[name].std("study"))
        assert 0.95 < ratio < 1.05, (name, ratio)


# --- shares -----------------------------------------------------------------------------------------------------------


def result():
    keys = np.array([["a", "b", "c", ""], ["d", "e", "f", "g"]], dtype=object)
    status = np.array([["ok", "ok", "failed", "not_run"], ["ok"] * 4], dtype=object)
    lower, upper = [[0.0, 2.0, NAN, NAN], [0.0] * 4], [[2.0, 3.0, NAN, NAN], [2.0, 2.0, 0.5, 2.0]]
    columns = {"lower": lower, "upper": upper, "run_key": keys, "run_status": status}
    data = {name: (("n", "seed"), values) for name, values in columns.items()}
    return xr.Dataset(data, {"truth": ("n", [1.0, 1.0]), "n": [10, 20]})


def test_a_share_counts_failures_explicitly():
    found = result().evogt.share("lower <= truth <= upper")
    columns = ("share", "n_ok", "n_planned", "failed")
    assert [found[name].values.tolist() for name in columns] == [[0.5, 0.75], [2, 4], [3, 4], [1, 0]]
    assert ((found.share_ci[:, 0] < found.share) & (found.share < found.share_ci[:, 1])).all()
    pooled = result().evogt.share("not (truth > upper or lower > truth)", ["n", "seed"])
    assert (float(pooled.share), int(pooled.n_ok), int(pooled.failed)) == (pytest.approx(4 / 6), 6, 1)
    assert float(result().evogt.share("abs(lower - truth) * 2 == 2").share[1]) == 1.0


@pytest.mark.parametrize(
    "condition",
    ["lower <", "lower", "lower + 1", "nothing < 1", "lower.values < 1", "upper[0] < 1", "f(upper) < 1", "min(1) < 2"],
)
def test_only_comparisons_of_variables_are_conditions(condition):
    with pytest.raises(InputError, match="^`condition` must"):
        result().evogt.share(condition)


# --- many problems ----------------------------------------------------------------------------------------------------


def problems(seed=8):
    rng = np.random.default_rng(seed)
    x = np.exp(0.3 * rng.standard_normal((3, 9, 12)) + np.array([0, 0.4, 1.0])[:, None, None])
    return xr.DataArray(
        x * np.exp(2 * rng.standard_normal((1, 9, 1))), dims=("method", "problem", "seed"),
        coords={"method": ["A", "B", "C"]}, name="error",
    )  # fmt: skip


def test_the_method_that_is_lower_leads_the_problems():
    found = evs.over_problems(problems(), "method")
    assert int(found.problems_led[0]) >= 8
    assert found.mean_rank.values.tolist() == sorted(found.mean_rank.values)
    assert float(found.mean_rank.sum()) == pytest.approx(6.0)
    assert ((found.mean_rank_ci[:, 0] <= found.mean_rank) & (found.mean_rank <= found.mean_rank_ci[:, 1])).all()
    assert float(found.iqm[2] / found.iqm[0]) == pytest.approx(math.e, rel=0.15)
    assert (found.profile.diff("factor") >= 0).all()
    inverse = evs.over_problems(1.0 / problems(), "method", better="higher")
    np.testing.assert_allclose(inverse.mean_rank, found.mean_rank)
    np.testing.assert_allclose(inverse.profile, found.profile)
    for units in ("problem", "stratified"):
        assert np.isfinite(evs.over_problems(problems(), "method", units=units).iqm_ci).all()


def test_a_failed_run_has_the_last_rank():
    x = problems()
    x[0, :, :6] = NAN
    found = evs.over_problems(x, "method")
    assert found.note.item().startswith("54 of 324 runs have no value")
    assert float(found.profile.sel({"method": "A", "factor": 10.0})) <= 0.5
    assert float(found.mean_rank[0]) > 1.9
    with pytest.raises(ParameterError, match="`values` must be positive"):
        evs.over_problems(-problems(), "method")
    with pytest.raises(InputError, match="must have the dimension case"):
        evs.over_problems(problems(), "method", "case")

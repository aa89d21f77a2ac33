"""Labelled sensitivity: designs known by their coordinates, other dimensions, the seed, failures and status."""

import json

import numpy as np
import pytest
import xarray as xr
from SALib.analyze import sobol as salib
from SALib.sample import morris as trajectories
from SALib.sample import sobol as blocks

import evogt_study as evs
from evogt_study.analysis.statistics import IncompleteWarning
from evogt_study.analysis.tables import format_sensitivity
from evogt_study.errors import InputError
from evogt_study.schema.variables import Status

PROBLEM = {"num_vars": 3, "names": ["gamma", "k", "tau"], "bounds": [[2, 30], [0, 1], [-1, 1]]}


def sampled(points, values, name="error", extra=()):
    """The values (n, ...) along `point`, with the parameters as coordinates."""
    coords = {name: ("point", points[:, i]) for i, name in enumerate(PROBLEM["names"])}
    dims = ("point", *extra)
    return xr.DataArray(values, {"point": np.arange(len(points)), **coords}, dims, name=name)


def f(x):
    return np.log(x[:, 0]) + 2.0 * x[:, 1] ** 2 + x[:, 1] * x[:, 2]


def uniform(count=256, seed=0):
    return np.random.default_rng(seed).random((count, 3)) * [28, 1, 2] + [2, 0, -1]


def test_blocks_are_known_by_their_points_and_indices_are_salibs_at_all_times():
    points = blocks.sample(PROBLEM, 64, seed=1)
    values = f(points)[:, None] * [1.0, 2.0] + points[:, 1:2] * [0.0, 3.0]
    found = whole = evs.sensitivity(sampled(points, values, extra=("time",)), "point")
    assert found.attrs == {"method": "saltelli", "over": "point"}
    assert found.parameter.values.tolist() == PROBLEM["names"]
    assert found.n_ok.values.tolist() == found.n_planned.values.tolist() == [64, 64]
    for time in range(2):
        expected = salib.analyze(PROBLEM, values[:, time], seed=1)
        one = found.isel(time=time)
        np.testing.assert_allclose(one.first_order, expected["S1"], atol=1e-10)
        np.testing.assert_allclose(one.total, expected["ST"], atol=1e-10)
        np.testing.assert_allclose(one.second_order, expected["S2"], atol=1e-10)
    values[5, 0] = np.nan  # BA_2, which first-order and total indices do not need
    with pytest.warns(IncompleteWarning, match="1 of 1024 runs have no `error`"):
        found = evs.sensitivity(sampled(points, values, extra=("time",)), "point")
    assert found.n_ok.values.tolist() == [63, 64]
    np.testing.assert_allclose(found.total, whole.total, atol=1e-10)
    np.testing.assert_allclose(found.first_order, whole.first_order, atol=1e-2)


def test_trajectories_have_effects_in_the_step_that_the_design_states():
    points = trajectories.sample(PROBLEM, 30, num_levels=6, seed=2)
    values = sampled(points, f(points))
    values["point"].attrs["design"] = json.dumps(
        {"rule": "morris", "levels": 6, "parameters": {"k": {}, "gamma": {}, "tau": {}}}
    )
    found = evs.sensitivity(values)
    assert found.attrs["method"] == "morris"
    assert found.parameter.values.tolist() == ["k", "gamma", "tau"]
    assert float(found.mu.sel(parameter="tau")) == pytest.approx(2 * points[:, 1].mean(), abs=0.15)


def test_strings_seeds_and_axes_are_parameters_of_any_sample():
    """y = log gamma + 2 [rule = b] + noise of variance 1/4, at a product of 64 points, 2 rules and 4 seeds."""
    points, rng = uniform(64), np.random.default_rng(1)
    values = np.log(points[:, :1, None]) + np.array([0.0, 2.0])[:, None] + rng.normal(0.0, 0.5, (64, 2, 4))
    array = sampled(points, values, extra=("rule", "seed")).assign_coords(rule=["a", "b"])
    found = evs.sensitivity(array, ["point", "rule", "seed"])
    assert found.attrs["method"] == "polynomial_chaos"
    whole = np.log(points[:, 0]).var() + 1.0 + 0.25
    assert found.first_order.sel(parameter="rule") == pytest.approx(1.0 / whole, abs=0.03)
    assert found.first_order.sel(parameter="gamma") == pytest.approx((whole - 1.25) / whole, abs=0.05)
    assert found.seed_share == pytest.approx(0.25 / whole, abs=0.03)
    assert (found.n_ok, found.n_planned) == (128, 128)
    by_rule = evs.sensitivity(array, ["point", "seed"], log=False)
    assert by_rule.sizes == {"rule": 2, "parameter": 3, "bound": 2}


def test_failures_are_noted_and_explained_by_the_same_call_on_the_status():
    points = uniform()
    corner = (points[:, 0] > 22.0) & (points[:, 1] < 0.5)
    lost = sampled(points, np.where(corner, np.nan, f(points)))
    with pytest.warns(IncompleteWarning, match="42 of 256 runs"):
        found = evs.sensitivity(lost)
    assert found.note.item().startswith("runs without a value are left out (the sensitivity of run_status shows why")
    assert np.isfinite(found.total).all()
    status = sampled(points, np.where(corner, Status.failed, Status.ok).astype(np.int8), name="run_status")
    status.attrs["flag_values"] = [int(each) for each in Status]
    why = evs.sensitivity(status)
    assert why.total.values[:2].min() > 0.4 > 0.1 > why.total.values[2]


def test_the_note_has_the_assumptions_and_equal_values_have_no_shares():
    points = uniform()
    assert evs.sensitivity(sampled(points, f(points))).note.item().split("; ") == [
        "a test found no dependence of gamma, k, tau, but it may miss correlations below 0.27",
    ]
    assert evs.sensitivity(sampled(points, np.ones(256))).first_order.isnull().all()


def test_values_that_are_all_equal_are_refused():
    status = sampled(uniform(), np.full(256, Status.ok), name="run_status").assign_attrs(flag_values=[0])
    data = xr.Dataset({"error": sampled(uniform(), np.ones(256)), "run_status": status})
    for name in ("error", "run_status"):
        message = f"`{name.replace('run_status', 'failure')}` must vary to depend on parameters, got"
        with pytest.raises(InputError, match=message):
            data.evogt.sensitivity(name)


@pytest.mark.filterwarnings("error")
def test_infinite_values_have_no_indices_and_a_note():
    points = uniform(64)
    values = np.stack([f(points), f(points)], axis=1)
    values[3, 0] = np.inf
    found = evs.sensitivity(sampled(points, values, extra=("time",)), "point")
    assert np.isnan(found.first_order[0]).all()
    assert np.isfinite(found.first_order[1]).all()
    assert [text.split("; ")[0][:15] for text in found.note.values.tolist()] == ["infinite values", "a test found no"]


def test_the_table_has_the_largest_share_first_and_counts_missing_runs():
    points, noise = uniform(), np.random.default_rng(0).normal(0, 0.3, (256, 3))
    values = np.where(points[:, :1] > 25.0, np.nan, f(points)[:, None] + noise)
    found = evs.sensitivity(sampled(points, values, extra=("seed",)), missing="drop")
    lines = format_sensitivity(found).splitlines()
    assert lines[0].split()[:2] == ["parameter", "first_order"]
    assert [line.split()[0] for line in lines[2:6]] == ["gamma", "k", "tau", "seed"]
    assert lines[2].endswith(f"{int(found.n_ok)}/256")
    assert lines[7].startswith("runs without a value are left out")
    assert r"\toprule" in format_sensitivity(found, "latex")
    points = blocks.sample(PROBLEM, 16, seed=1)
    pairs = format_sensitivity(evs.sensitivity(sampled(points, f(points))))
    assert {line.split("  ")[0] for line in pairs.splitlines()[-5:-2]} == {"gamma, k", "gamma, tau", "k, tau"}


def test_a_result_without_a_sample_is_refused_with_its_dimensions():
    with pytest.raises(InputError, match=r"`over` must be given if no dimension is a sample, got N, seed"):
        evs.sensitivity(xr.DataArray(np.ones((2, 3)), dims=("N", "seed")))
    plain = xr.DataArray(np.arange(6.0).reshape(2, 3), {"N": [1, 2], "N1": ("N", [2, 4])}, ("N", "seed"), name="error")
    keyed = plain.assign_coords(run_key=("N", np.array(["a", "b"], dtype=object)))
    with pytest.raises(InputError, match="a sample of at least .* points, got N with 2. Use evs.variance_shares"):
        xr.Dataset({"error": keyed}).evogt.sensitivity(over=["N", "seed"])


# --- streams and dependent parameters ---------------------------------------------------------------------------------


def two_parameters(rng, rule, kind, seeds, count=128):
    """x1 has half of the variance and the seeds have the other half.

    kind: "common" effect of a seed; "mixed", that (1/2), times x1 (1/4) and noise (1/4); "fresh" noise of each run.
    """
    u = rng.random((count, 2))
    if rule == "saltelli":
        one, two = rng.random((count // 2, 1, 2)), rng.random((count // 2, 1, 2))
        own = np.eye(2, dtype=bool)
        u = np.concatenate([one, np.where(own, two, one), two], axis=1).reshape(-1, 2)
    f = 12**0.5 * (u[:, :1] - 0.5)
    e, g, noise = {"common": (1, 0, 0), "mixed": (0.5, 0.25, 0.25), "fresh": (0, 0, 1)}[kind]
    y = f + e**0.5 * rng.normal(size=seeds) + g**0.5 * f * rng.normal(size=seeds)
    y = y + noise**0.5 * rng.normal(size=(len(u), seeds))
    stated = {"design": json.dumps({"kind": "sample", "rule": rule, "parameters": {"x1": {}, "x2": {}}})}
    coords = {"point": ("point", np.arange(len(u)), stated), "x1": ("point", u[:, 0]), "x2": ("point", u[:, 1])}
    return xr.DataArray(y, coords, ("point", "seed"), name="y")


def coverage(rule, kind, seeds, draws, seed=20261126):
    """Shares of draws whose intervals hold the first-order index of x1 and the share of the seeds, both 1/2."""
    rng, hits = np.random.default_rng(seed), []
    for _ in range(draws):
        y = two_parameters(rng, rule, kind, seeds)
        found = evs.sensitivity(y, design=evs.Design.of(y, common="none" if kind == "fresh" else "all"))
        ends = found.first_order_ci.sel(parameter="x1").values, found.seed_share_ci.values
        hits.append([bool(low <= 0.5 <= high) for low, high in ends])
    return np.mean(hits, axis=0)


@pytest.mark.parametrize(("rule", "kind"), [("random", "common"), ("saltelli", "mixed"), ("random", "fresh")])
def test_intervals_cover_with_common_and_with_fresh_streams(rule, kind):
    """40 draws: 0.95 is known to 0.035."""
    assert coverage(rule, kind, 5, 40).min() > 0.84


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["random", "saltelli"])
@pytest.mark.parametrize("kind", ["common", "mixed", "fresh"])
@pytest.mark.parametrize("seeds", [2, 5, 20])
def test_intervals_cover_in_200_draws(rule, kind, seeds):
    """Last results: docs/background/coverage.md."""
    found = coverage(rule, kind, seeds, 200)
    print(rule, kind, seeds, found)
    assert found.min() >= 0.90 - 0.02  # a standard error


def test_streams_that_are_stated_wrongly_are_found_and_parts_of_streams_refused():
    y = two_parameters(np.random.default_rng(0), "random", "common", 5)
    assert "seeds have a common effect (p = " in evs.sensitivity(y, design=evs.Design.of(y, common="none")).note.item()
    assert "seeds count as common to all runs" in evs.sensitivity(y).note.item()


def test_dependent_parameters_are_refused_or_have_shapley_effects():
    x = np.random.default_rng(0).normal(size=(256, 2)) @ np.array([[1, 0.9], [0, 0.19**0.5]])
    y = xr.DataArray(x.sum(1), {"x1": ("point", x[:, 0]), "x2": ("point", x[:, 1])}, "point", name="y")
    with pytest.raises(InputError, match=r"x1 and x2 depend on each other .* Use method=\"shapley\"\."):
        evs.sensitivity(y)
    found = evs.sensitivity(y, method="shapley")
    np.testing.assert_allclose(found.shapley, 0.5, atol=0.03)
    np.testing.assert_allclose(found.first_order, 0.95, atol=0.03)
    assert found.note.item().startswith("x1 and x2 depend on each other")
    independent = y.assign_coords(x2=("point", np.random.default_rng(1).normal(size=256)))
    assert "a test found no dependence of x1, x2" in evs.sensitivity(independent).note.item()
    keys = np.where((x[:, 0] > 0) & (independent.x2.values > 0), "", "k").astype(object)
    corner = independent.assign_coords(x1=("point", np.round(x[:, 0])), x2=("point", np.round(independent.x2.values)))
    with pytest.raises(InputError, match="points inside their ranges are excluded"):
        evs.sensitivity(corner.assign_coords(run_key=("point", keys)))


def test_the_estimand_mean_leaves_the_seeds_out():
    y = two_parameters(np.random.default_rng(0), "random", "fresh", 20)
    y["seed"] = ("seed", range(20), {"streams": json.dumps({"common": "none"})})
    found = evs.sensitivity(y, estimand="mean")
    assert "seed_share" not in found
    assert float(found.first_order[0]) == pytest.approx(1.0, abs=0.05)

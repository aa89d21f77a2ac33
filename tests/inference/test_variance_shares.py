"""Variance components on grids: exact values, every order of the axes, failed runs, and what the intervals cover."""

import itertools

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.analysis.runs import Design
from evogt_study.errors import InputError
from evogt_study.inference.kernels import compute_pseudo_values, fit_blocks
from evogt_study.inference.sensitivity import compute_grid_components


def by_hand(y):
    """Mean squares of the crossed model axis a x axis b x seed, from their definitions."""
    (a, b, r), mean = y.shape, y.mean()
    rows, columns, seeds = y.mean((1, 2)) - mean, y.mean((0, 2)) - mean, y.mean((0, 1)) - mean
    both = y.mean(2) - mean - rows[:, None] - columns
    rows_seeds = y.mean(1) - mean - rows[:, None] - seeds
    columns_seeds = y.mean(0) - mean - columns[:, None] - seeds
    rest = y - y.mean(2, keepdims=True) - y.mean((0, 1)) + mean
    three = rest - rows_seeds[:, None] - columns_seeds
    noise = [(each**2).sum() / (r - 1) / n for each, n in ((rows_seeds, a), (columns_seeds, b), (three, a * b))]
    return {
        (0,): (rows**2).mean() - noise[0] / r, (1,): (columns**2).mean() - noise[1] / r,
        (0, 1): (both**2).mean() - noise[2] / r, "seed": (seeds**2).sum() / (r - 1), "seed:setups": sum(noise),
    }  # fmt: skip


def draw_values(shape=(2, 3, 20), seed=0):
    rng = np.random.default_rng(seed)
    setups = np.arange(shape[0])[:, None, None] + 2.0 * np.arange(shape[1])[:, None]
    return setups + rng.normal(size=shape) + rng.normal(size=shape[2])


def make_array(y, dims=("a", "b", "seed")):
    return xr.DataArray(y, dims=dims, name="y")


def test_components_are_the_mean_squares_less_their_noise():
    y = draw_values()
    own, seeds = compute_grid_components(y, fresh=False, confidence=0.95)
    for name, expected in by_hand(y).items():
        assert (own | seeds)[name][0] == pytest.approx(expected, rel=1e-11), name
    fresh, run = compute_grid_components(y, fresh=True, confidence=0.95)
    within = y.var(axis=2, ddof=1).mean()
    assert run["run"][0] == pytest.approx(within, rel=1e-12)
    assert fresh[(0,)][0] == pytest.approx(((y.mean((1, 2)) - y.mean()) ** 2).mean() - within / 20 / 6, rel=1e-10)


def test_a_parameter_has_its_share_whatever_the_order_of_the_dimensions():
    """An effect of a factor of seven has a share, at every place of its dimension."""
    y = make_array(np.log([1.0, 7.0])[:, None, None] + np.array([0.0, 3.0, 6.0])[:, None] + 0.1 * draw_values() * 0)
    y = y + 0.1 * np.random.default_rng(1).normal(size=(2, 3, 20))
    found = evs.variance_shares(y)
    assert float(found.share.sel(source="a")) == pytest.approx(0.136, abs=0.01)
    for order in itertools.permutations(y.dims):
        turned = evs.variance_shares(y.transpose(*order))
        np.testing.assert_allclose(turned.share.sel(source=found.source), found.share, rtol=0, atol=1e-12)
        np.testing.assert_allclose(turned.total_ci.sel(axis=found.axis), found.total_ci, rtol=0, atol=1e-12)


def test_the_sources_of_variance_follow_from_the_design():
    found = evs.variance_shares(make_array(draw_values()))
    assert found.source.values.tolist() == ["a", "b", "a:b", "seed", "seed:setups"]
    assert float(found.share.sum()) == pytest.approx(1.0)
    assert "seeds count as common to all runs" in found.note.item()
    design = Design.of(make_array(draw_values()), common="none")
    fresh = evs.variance_shares(make_array(draw_values()), design=design)
    assert fresh.source.values.tolist() == ["a", "b", "a:b", "run"]
    assert fresh.note.item() == ""
    mean = evs.variance_shares(make_array(draw_values()), estimand="mean")
    assert mean.source.values.tolist() == ["a", "b", "a:b"]
    high = evs.variance_shares(make_array(draw_values((2, 3, 8)).reshape(2, 3, 2, 4), ("a", "b", "c", "seed")))
    assert high.source.values.tolist() == ["a", "b", "c", "a:b", "a:c", "b:c", "higher", "seed", "seed:setups"]
    alone = evs.variance_shares(make_array(draw_values()[..., 0], ("a", "b")))
    assert np.isnan(alone.share_ci).all()
    assert "no intervals" in alone.note.item()
    along = evs.variance_shares(make_array(draw_values()), ["a"])
    assert along.share.dims == ("b", "source")


def test_a_declared_geometric_mean_has_shares_of_logarithms():
    y = make_array(np.exp(draw_values())).assign_attrs(estimand="geometric_mean")
    logs = evs.variance_shares(make_array(draw_values()))
    np.testing.assert_allclose(evs.variance_shares(y).share, logs.share, rtol=1e-10)
    assert "of log(y)" in evs.variance_shares(y).note.item()
    with pytest.raises(InputError, match="`y` must be positive"):
        evs.variance_shares(make_array(draw_values()) - 9.0, log=True)


def test_a_failed_run_costs_one_run():
    y = draw_values((3, 4, 30))
    lost = np.where(np.random.default_rng(2).random(y.shape) < 0.1, np.nan, y)
    whole, part = (evs.variance_shares(make_array(each)) for each in (y, lost))
    np.testing.assert_allclose(part.share, whole.share, atol=0.04)
    assert int(part.n_ok) == int(np.isfinite(lost).sum())
    assert "runs have no value" in part.note.item()


def test_setup_means_are_least_squares_and_pseudo_values_are_the_jackknife():
    rng = np.random.default_rng(0)
    y = np.arange(3.0)[:, None] + 3.0 * rng.normal(size=7) + rng.normal(size=(3, 7))
    y[0, 1] = y[1, 4] = y[2, 4] = np.nan
    there = np.isfinite(y)
    rows, columns = np.nonzero(there)
    matrix = np.zeros((len(rows), 10))
    matrix[np.arange(len(rows)), rows] = matrix[np.arange(len(rows)), 3 + columns] = 1.0
    fit = np.linalg.lstsq(matrix, y[there], rcond=None)[0]
    np.testing.assert_allclose(fit_blocks(y)[0], fit[:3] + fit[3:].mean(), rtol=1e-10)
    left = np.stack([fit_blocks(np.delete(y, unit, axis=1))[0] for unit in range(7)], axis=1)
    expected = fit_blocks(y)[0][:, None] + 6 * (left.mean(axis=1, keepdims=True) - left)
    np.testing.assert_allclose(compute_pseudo_values(y), expected, rtol=1e-9)


def test_values_that_do_not_vary_have_no_share():
    assert np.isnan(evs.variance_shares(make_array(np.full((2, 3, 5), 0.1))).share).all()


def coverage(common, seeds, lost, draws, seed=20261126):
    """Shares of draws whose intervals hold the truth, by source: a 2 x 3 grid with interaction, variance 5."""
    rng = np.random.default_rng(seed)
    a, b = np.array([-1, 1.0])[:, None, None], np.array([-1.5, 0, 1.5])[None, :, None]
    f = a + b + 0.5 * a * np.array([1, -2, 1.0])[None, :, None]
    truth = {"a": 0.2, "b": 0.3, "a:b": 0.1}
    truth |= {"seed": (1 + 0.5 / 6) / 5, "seed:setups": (0.5 + 0.5 * 5 / 6) / 5} if common else {"run": 0.4}
    hits = []
    for _ in range(draws):
        e, g = rng.normal(size=(2, *(() if common else (2, 3)), seeds))
        y = f + e + 0.5**0.5 * (g * a + rng.normal(size=(2, 3, seeds)))
        y = make_array(np.where(rng.random(y.shape) < lost, np.nan, y))
        ends = evs.variance_shares(y, design=Design.of(y, common="all" if common else "none")).share_ci
        hits.append([bool(ends.sel(source=s)[0] <= v <= ends.sel(source=s)[1]) for s, v in truth.items()])
    return dict(zip(truth, np.mean(hits, axis=0), strict=True))


@pytest.mark.parametrize("common", [True, False])
def test_intervals_cover_the_share_at_their_level(common):
    """60 draws: 0.95 is known to 0.03."""
    assert min(coverage(common, 20, 0.05, 60).values()) > 0.86


@pytest.mark.slow
@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize(("seeds", "lost"), [(2, 0.0), (5, 0.0), (20, 0.0), (20, 0.05), (20, 0.24)])
def test_intervals_hold_the_share_in_400_draws(common, seeds, lost):
    """Last results: docs/background/coverage.md."""
    found = coverage(common, seeds, lost, 400)
    print(
        f"{'common' if common else 'fresh'}, {seeds} seeds, {lost:.0%} lost", {k: round(v, 3) for k, v in found.items()}
    )
    assert min(found.values()) >= 0.90

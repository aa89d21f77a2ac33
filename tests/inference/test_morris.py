"""Elementary effects: SALib's numbers, and trajectories with missing runs."""

import numpy as np
from known_indices import ishigami
from SALib.analyze import morris as salib
from SALib.sample import morris as trajectories

from evogt_study.inference import sensitivity as layouts
from evogt_study.inference import sensitivity as morris
from evogt_study.inference.intervals import Interval

PROBLEM = {"num_vars": 3, "names": ["a", "b", "c"], "bounds": [[0, 1]] * 3}


def test_effects_are_salibs_and_a_trajectory_with_a_missing_run_is_left_out():
    points = trajectories.sample(PROBLEM, 40, num_levels=6, seed=2)
    values = ishigami(points)
    assert layouts.is_morris(points)
    lost = values.copy()
    lost[[5, 101]] = np.nan
    kept = np.delete(np.arange(160).reshape(40, 4), [1, 25], axis=0).ravel()
    for given, which in ((values, np.arange(160)), (lost, kept)):
        found = morris.effects(given, points, 6, Interval())
        expected = salib.analyze(PROBLEM, points[which], values[which], num_levels=6, num_resamples=999, seed=1)
        for name in ("mu", "mu_star", "sigma"):
            np.testing.assert_allclose(getattr(found, name), np.asarray(expected[name]), rtol=1e-10, atol=1e-10)
        width = np.diff(found.mu_star_ci)[:, 0] / 2
        np.testing.assert_allclose(width, np.asarray(expected["mu_star_conf"]), rtol=0.1, atol=1e-10)
        assert found.n_ok == len(which) // 4

"""Variance components: R's on a balanced design, closed forms, and the coverage of the shares' intervals."""

import numpy as np

from evogt_study.inference.sensitivity import components, share_intervals, shares

RAIL = np.array([[55, 53, 54], [26, 37, 32], [78, 91, 85], [92, 100, 96], [49, 51, 50], [80, 85, 83]], dtype=float)
"""Travel times of ultrasound on six rails, three each: the data `Rail` of R's package nlme."""


def test_a_balanced_design_has_the_components_of_r():
    """lme(travel ~ 1, data = Rail, random = ~ 1 | Rail) prints the standard deviations 24.80547 and 4.020779.

    Pinheiro & Bates, Mixed-Effects Models in S and S-PLUS (2000), section 1.1: by REML, which is the nested analysis of
    variance where the design is balanced.
    """
    np.testing.assert_allclose(np.sqrt(components(RAIL)), [24.80547, 4.020779], rtol=1e-6)
    np.testing.assert_allclose(
        shares(RAIL), np.array([24.80547, 4.020779]) ** 2 / (24.80547**2 + 4.020779**2), rtol=1e-6
    )


def test_three_levels_come_out_of_a_large_table():
    rng = np.random.default_rng(0)
    table = 3.0 * rng.normal(size=(300, 1, 1)) + 2.0 * rng.normal(size=(300, 20, 1)) + rng.normal(size=(300, 20, 10))
    np.testing.assert_allclose(components(table), [9.0, 4.0, 1.0], rtol=0.15)
    one = components(table[:, :1])  # an axis of one value has none
    assert one[1] == 0.0
    np.testing.assert_allclose(one[[0, 2]], [13.0, 1.0], rtol=0.2)


def test_what_does_not_vary_has_no_share():
    table = np.arange(4.0)[:, None] + np.zeros((4, 6))
    np.testing.assert_allclose(shares(table), [1.0, 0.0])
    for constant in (1.0, 2.0, 0.1, -3.0, 0.0):
        assert np.isnan(shares(np.full((3, 12), constant))).all()
    np.testing.assert_array_equal(share_intervals(table, 0.95), [[1.0, 1.0], [0.0, 0.0]])


def test_intervals_hold_the_share_as_often_as_they_say():
    """Seeds are a sample, the three parameter values are not: effects -1, 0, 1, seed deviation 1."""
    effects = np.array([-1.0, 0.0, 1.0])
    truth = 1.0 / (1.0 + 1.0)  # the components: variance of the effects with divisor 2, and of the seeds
    rng = np.random.default_rng(1)
    limits = [share_intervals(effects[:, None] + rng.normal(size=(3, 20)), 0.95)[0] for _ in range(400)]
    low, high = np.array(limits).T
    assert 0.92 <= np.mean((low <= truth) & (truth <= high)) <= 0.99

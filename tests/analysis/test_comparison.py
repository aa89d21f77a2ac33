"""`compare`: one estimand, one test, one interval and one sentence, in which no two parts disagree."""

import itertools
import re

import numpy as np
import pytest
import scipy.stats
import xarray as xr
from helpers import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import evogt_study as evs
from evogt_study.inference import comparisons as tests

NAN = np.nan
RELAXED = settings(deadline=None, derandomize=True, max_examples=examples(600))


def make_array(values, names="abcdefghij", name="error", **attrs):
    values = np.asarray(values, dtype=float)
    coords = {"method": list(names)[: len(values)], "seed": range(values.shape[1])}
    return xr.DataArray(values, coords, ["method", "seed"], name=name, attrs=attrs)


def draw_separated(count=2, seeds=10):
    """Values for which the first method is lowest on every seed."""
    rng = np.random.default_rng(0)
    return rng.uniform(1.0, 2.0, (count, seeds)) * np.array([1.0, *[5.0] * (count - 1)])[:, None]


def conclude(values, **options):
    return evs.compare(values, "method", **options).conclusion.item()


# --- what is reported agrees ------------------------------------------------------------------------------------------


def differences(found):
    """Whether each number of a comparison and its sentence report a difference."""
    neutral = 1.0 if found.scale.item() == "ratio" else 0.0
    low, high = found.effect_ci.values
    text, message = found.conclusion.item(), {"significant": bool(found.significant), "p": bool(found.p_value <= 0.05)}
    if np.isfinite([low, high]).any():
        message["effect"] = bool(low > neutral or high < neutral)
    if np.isfinite(found.probability):
        ends = found.probability_ci.values
        message["probability"] = bool(ends[0] > 0.5 or ends[1] < 0.5)
    message["sentence"] = not re.match("No |Fewer|.*: too few|.* are equal", text)
    for kind in ("ratio", "difference", "wins"):
        for a, b in re.findall(rf"{kind} [\d.e+-]+ \((-?[\d.e+-]+|inf|-inf) to (-?[\d.e+-]+|inf)\)", text):
            message[f"printed {kind}"] = not float(a) <= neutral <= float(b)
    return message


def draw_any_values(rng):
    """Values of two to five methods on three to thirty seeds, with outliers, ties and failures."""
    count, seeds = int(rng.integers(2, 6)), int(rng.choice([3, 5, 6, 8, 10, 15, 30]))
    z = rng.choice([0.1, 0.8, 2]) * rng.standard_normal((count, seeds))
    x = np.exp(z + rng.choice([0, 0.5, 3]) * np.arange(count)[:, None])
    x *= np.where(rng.random(x.shape) < 0.05, 10 ** rng.uniform(1, 3, x.shape), 1)
    x = np.round(x, 1) + 0.1 if rng.random() < 0.2 else x
    return np.where(rng.random(x.shape) < rng.choice([0, 0, 0.1]), NAN, x)


@RELAXED
@given(st.integers(0, 2**32), st.sampled_from(tests.ESTIMANDS), st.sampled_from(["lower", "higher", "nearest 2.0003"]))
def test_no_two_parts_of_a_comparison_disagree(seed, estimand, better):
    found = evs.compare(
        make_array(draw_any_values(np.random.default_rng(seed))), "method", estimand=estimand, better=better
    )
    assert len(set(differences(found).values())) == 1, (differences(found), found.conclusion.item())
    assert "best" not in found.conclusion.item()


@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.003])
def test_intervals_of_a_probability_and_of_a_median_exclude_exactly_if_the_test_rejects(alpha):
    for n in range(1, 80):
        for wins in range(n + 1):
            rejects = float(tests.compute_sign_p(wins, n - wins)) <= alpha
            low, high = tests.compute_win_interval(wins, n, alpha)
            assert (low > 0.5 or high < 0.5) == rejects, (n, wins)
            low, high = tests.compute_median_interval(np.array([-1.0] * wins + [1.0] * (n - wins)), alpha)
            assert (low > 0 or high < 0) == rejects, (n, wins)


# --- known answers ----------------------------------------------------------------------------------------------------

SLEEP = [[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]]
"""Extra hours of sleep with two drugs (R's data `sleep`)."""


def test_a_paired_t_test_has_the_answer_of_r():
    """R 4.2.2: t.test(sleep$extra[sleep$group == 1], sleep$extra[sleep$group == 2], paired = TRUE)."""
    found = evs.compare(make_array(SLEEP), "method", estimand="mean", better="higher")
    assert found.leader.item() == "b"
    assert found.p_value.item() == pytest.approx(0.00283289019738427, rel=1e-10)
    np.testing.assert_allclose(found.effect_ci, [0.7001142367230175, 2.459885763276982], rtol=1e-10)
    assert found.effect.item() == pytest.approx(1.58, abs=1e-12)


def test_a_sign_test_and_adjusted_p_values_have_the_answers_of_r():
    """R 4.2.2: binom.test(9, 10) and binom.test(7, 10).

    p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm") is 0.04 0.06 0.06 0.06.
    """
    found = evs.compare(make_array(np.stack([np.ones(10), np.where(np.arange(10), 2.0, 0.5)])), "method")
    assert found.p_value.item() == pytest.approx(0.02148437500000001, rel=1e-10)
    np.testing.assert_allclose(found.probability_ci, [0.5549838829718046, 0.9974714214555382], rtol=1e-10)
    np.testing.assert_allclose(
        tests.compute_win_interval(7, 10, 0.05), [0.3475471499400027, 0.9332604888222655], rtol=1e-10
    )
    p = np.array([0.03, 0.01, NAN, 0.04, 0.02])
    np.testing.assert_allclose(tests.adjust_p_values(p), [0.06, 0.04, NAN, 0.06, 0.06])
    assert ((p <= tests.find_holm_levels(p, 0.05)) == (tests.adjust_p_values(p) <= 0.05))[~np.isnan(p)].all()


def test_fiellers_interval_has_the_ratios_that_the_test_accepts():
    rng = np.random.default_rng(1)
    x, y = rng.normal(3.0, 1.0, 12), rng.normal(5.0, 1.0, 12)
    for end in tests.compute_fieller_interval(x, y, 0.05):
        assert scipy.stats.ttest_1samp(x - end * y, 0.0).pvalue == pytest.approx(0.05, rel=1e-9)
    assert tests.compute_fieller_interval(x, y - 5.0, 0.05) is None
    base = np.array([0.5, 0.6, 0.7, 0.5, 0.6, 0.7, 0.5, 0.6, 40.0, 60.0])  # a mean that is not clearly positive
    values = make_array(np.stack([base + 2.0 + 0.1 * np.random.default_rng(0).standard_normal(10), base]))
    found = evs.compare(values, "method", estimand="mean", better="higher")
    assert (found.scale.item(), "differences" in found.note.item()) == ("difference", True)
    assert len(set(differences(found).values())) == 1


# --- direction --------------------------------------------------------------------------------------------------------


def test_the_direction_is_declared_or_the_sentence_says_lowest():
    accuracy = make_array(1.0 - draw_separated(3) / 20.0, name="accuracy")
    assert evs.compare(accuracy, "method").leader.item() in "bc"  # the lowest
    declared = accuracy.assign_attrs(better="higher")
    found = evs.compare(declared, "method")
    assert found.conclusion.item().startswith("a has the highest accuracy of all 3; closest is ")
    assert (found.attrs["better"], found.scale.item()) == ("higher", "difference")  # of shares
    assert evs.compare(declared, "method", better="lower").leader.item() in "bc"
    wrong = accuracy.assign_attrs(better="maximal", estimand=3)  # attributes of anybody's Dataset
    xr.testing.assert_identical(evs.compare(wrong, "method"), evs.compare(accuracy, "method"))


def test_the_closest_of_rivals_that_never_win_has_the_nearest_values():
    found = evs.compare(
        make_array(np.array([[0.78], [0.94], [0.90]]) + np.linspace(0.0, 0.01, 12), better="higher"), "method"
    )
    assert (found.leader.item(), found.rival.item()) == ("b", "c")


def test_nearest_to_a_target():
    rng = np.random.default_rng(0)
    shares = make_array((rng.random((3, 400)) < np.array([0.95, 0.80, 0.999])[:, None]) * 1.0, name="covered")
    found = evs.compare(shares, "method", better="nearest 0.95")
    assert (found.leader.item(), bool(found.significant)) == ("a", True)
    assert found.conclusion.item().startswith("a has the covered nearest to 0.95 of all 3; closest is c (a 0.9")
    few = conclude(shares.isel(seed=slice(20)), better="nearest 0.95")
    assert few.startswith("No significant leader in covered: ")
    widths = make_array([[1.1, 0.9, 1.05, 0.95, 1.02, 0.97, 1.01], [2.0, 0.2, 1.9, 0.3, 1.8, 0.4, 1.7]])
    assert conclude(widths, better="nearest 1").startswith("a has the error nearest to 1")


def test_a_declared_geometric_mean_is_the_estimand_if_it_exists():
    declared = make_array(draw_separated(), estimand="geometric_mean")
    assert conclude(declared).startswith("a has a lower geometric mean error than b: ratio 0.")
    zero = declared.copy(data=np.where(np.arange(10) == 3, 0.0, declared.values))
    assert evs.compare(zero, "method").attrs["estimand"] == "win"


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_failed_run_is_a_loss_and_is_counted():
    x = draw_separated()
    x[0, :3] = NAN
    x[1, 0] = NAN
    numbered = make_array(x).rename(method="n").assign_coords(n=[1, 2])
    counts = "Runs without a value, counted as losses: n = 1: 3 of 10; n = 2: 1 of 10."
    assert evs.compare(numbered, "n").conclusion.item().endswith(counts)
    x[1, 0] = draw_separated()[1, 0]
    found = evs.compare(make_array(x), "method")
    assert found.conclusion.item().endswith("Runs without a value, counted as losses: a: 3 of 10.")
    assert (found.n_ok.values.tolist(), found.n_planned.values.tolist()) == ([7, 10], [10, 10])
    assert found.failed.values.tolist() == [0.3, 0.0]
    wilson = scipy.stats.binomtest(3, 10).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose(found.failed_ci[0], [wilson.low, wilson.high])
    assert not found.significant  # 7 of 10
    omitted = evs.compare(make_array(x), "method", failures="omit")
    assert bool(omitted.significant)
    assert omitted.conclusion.item().endswith("left out as if they failed at random: a: 3 of 10.")
    mean = evs.compare(make_array(x), "method", estimand="geometric_mean")
    assert "but a has failed runs, which a mean leaves out. Runs without a value, left" in mean.conclusion.item()
    assert np.isnan(mean.p_value)


def test_runs_that_are_not_planned_neither_win_nor_lose():
    x = make_array(draw_separated(3))
    planned = xr.ones_like(x, dtype=bool)
    planned[1, 4:] = False  # b has four seeds
    planned[2] = False
    found = evs.compare(x.where(planned), "method", planned=planned)
    assert (found.leader.item(), found.rival.item(), int(found.n_common)) == ("a", "b", 4)
    assert found.n_planned.values.tolist() == [10, 4, 0]
    assert "Failed" not in found.conclusion.item()
    alone = planned & (x.method == "a")
    assert conclude(x.where(alone), planned=alone) == "Fewer than two values have runs."
    assert conclude(x.where(False)) == "No run has a value."


def test_runs_that_share_a_key_count_once():
    """transnet does not use N1: its runs are the same at both, and meet gtransnet's twice."""
    dims, t = ("method", "N1", "seed"), [["t0", "t1"], ["t0", "t1"]]
    x = xr.DataArray(np.arange(8.0).reshape(2, 2, 2), {"method": ["t", "g"]}, dims, name="error")
    for g, n in (([["g0", "g1"], ["h0", "h1"]], 4), ([["u0", "u1"], ["u0", "u1"]], 2)):
        keyed = x.assign_coords(run_key=(dims, np.array([t, g], dtype=object)))
        assert int(evs.compare(keyed, "method", ["seed", "N1"], units=["seed", "N1"]).n_common) == n


# --- designs ----------------------------------------------------------------------------------------------------------


def test_a_unit_of_several_runs_counts_once():
    rng = np.random.default_rng(0)
    x = np.exp(rng.standard_normal((2, 8, 30))) * np.array([1.0, 3.0])[:, None, None]
    x = xr.DataArray(x, {"method": ["a", "b"]}, ("method", "seed", "problem"), name="error")
    found = evs.compare(x, "method", ["seed", "problem"])
    assert (int(found.n_common), found.scale.item(), found.attrs["unit"]) == (8, "margin", "seed")
    by_problem = evs.compare(x, "method", ["seed", "problem"], units="problem")
    assert int(by_problem.n_common) == 30
    assert "on a fresh problem" in by_problem.conclusion.item()
    mean = evs.compare(x, "method", ["seed", "problem"], estimand="geometric_mean")
    d = np.log(x).mean("problem")
    assert mean.p_value.item() == pytest.approx(scipy.stats.ttest_rel(d[0], d[1]).pvalue, rel=1e-10)


def test_every_setup_has_its_comparison_and_the_note_says_that_p_values_are_not_adjusted():
    x = xr.concat([make_array(draw_separated()), make_array(draw_separated()[::-1]), make_array(np.ones((2, 10)))], "N")
    found = evs.compare(x.assign_coords(N=[1, 2, 3]), "method")
    assert found.leader.values.tolist() == ["a", "b", "a"]
    assert found.significant.values.tolist() == [True, True, False]
    assert found.conclusion.values[2] == "a and b are equal on all 10 seeds."
    assert "not adjusted for the 3 setups" in found.note.values[0]
    together = evs.compare(x, "method", family="all")
    assert (together.p_value.values >= found.p_value.values).all()
    assert "99." in together.conclusion.values[0] or "98." in together.conclusion.values[0]
    for order in itertools.permutations(x.dims):
        xr.testing.assert_equal(evs.compare(x.transpose(*order), "method"), evs.compare(x, "method"))


@pytest.mark.parametrize(("seeds", "confidence", "units", "least"), [
    (1, 0.95, "1 seed", 6), (3, 0.95, "3 seeds", 6), (5, 0.95, "5 seeds", 6), (6, 0.99, "6 seeds", 8),
])  # fmt: skip
def test_too_few_seeds_have_a_sentence_instead_of_an_interval(seeds, confidence, units, least):
    found = evs.compare(make_array(draw_separated(2, seeds)), "method", confidence=confidence)
    text = f"{units}: too few for an interval. Use at least {least}. a is lower than b on {seeds} of {units[:1]} seeds."
    assert found.conclusion.item() == text
    assert np.isnan(found.effect_ci).all()
    assert np.isnan(found.over_leader_ci).all()
    assert found.over_leader[1] > 1.0
    enough = evs.compare(make_array(draw_separated(2, least)), "method", confidence=confidence)
    assert np.isfinite(enough.effect_ci).all()
    assert "too few" not in enough.conclusion.item()


def test_numbers_have_the_name_of_their_axis_in_the_sentence():
    found = evs.compare(make_array(draw_separated(2, 10)).assign_coords(method=[50, 20]), "method")
    assert "method = 50 has a lower error than method = 20 on 10 of 10 seeds" in found.conclusion.item()
    assert (found.leader.item(), found.rival.item()) == ("50", "20")


def test_margin_and_ties_are_in_the_sentence():
    x = 1.0 + 0.001 * np.random.default_rng(0).standard_normal((2, 30))
    assert conclude(make_array(x), margin=0.05).split(":")[0].endswith("are equal within 5 %")
    tied = draw_separated()
    tied[1, :2] = tied[0, :2]
    assert "on 8 of 10 seeds, equal on 2" in conclude(make_array(tied))
    tied[1, :7] = tied[0, :7]
    text = (
        "3 seeds that differ: too few for an interval. Use at least 6. a is lower than b on 3 of 10 seeds, equal on 7."
    )
    assert conclude(make_array(tied)) == text
    assert evs.compare(make_array(draw_separated(2, 4)), "method", estimand="geometric_mean").significant


def test_the_effect_over_the_leader_is_there_for_every_value():
    found = evs.compare(make_array(draw_separated(4)), "method", estimand="geometric_mean")
    assert found.over_leader[0] == 1.0
    assert (found.over_leader_ci[1:, 0] > 1.0).all()
    assert np.isnan(found.p_over_leader[0])
    rival = found[["over_leader", "over_leader_ci"]].sel({"method": found.rival.item()})
    np.testing.assert_allclose(1 / rival.over_leader_ci.values[::-1], found.effect_ci)
    np.testing.assert_allclose(1 / rival.over_leader, found.effect)


def test_the_axis_may_be_n():
    assert evs.compare(make_array(draw_separated(2)).rename(method="n"), "n").leader.item() == "a"

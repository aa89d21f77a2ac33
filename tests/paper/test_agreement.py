"""Verdicts on printed numbers: strings, bounds, noise, half a unit more or less, and any number rounded once."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evogt_study.paper.published import Entry, Measure, Verdict, find_last_digit, judge_value

ALL, ONE, ORDER, DIFFERS = Verdict.all_digits, Verdict.one_unit, Verdict.same_order, Verdict.differs


def entry(published, computed, measure=Measure.digits, known="", judged=None):
    judged = judge_value(published, computed, measure) if judged is None else judged
    return Entry("file", "table", {"epsilon": "0.2"}, published, computed, measure, judged, 20, 20, known)


@pytest.mark.parametrize(
    ("published", "computed", "expected"),
    [
        ("4.50e-2", 0.0449683, ALL), ("singular", "singular", ALL), ("singular", "resolved", DIFFERS),
        ("1e15", "singular", DIFFERS), ("4.50e-2", 0.04495, ALL), ("4.50e-2", 0.04505, ALL),
        ("4.50e-2", 0.045050001, ONE), ("4.50e-2", 0.04515, ONE), ("4.50e-2", 0.045150001, DIFFERS),
        ("4.50e-2", 0.04485, ONE), ("4.50e-2", 0.044849999, DIFFERS), ("4.50e-2", -0.045, DIFFERS),
        ("-1.92e-5", -1.9249e-5, ALL), ("-1.92e-5", -1.9251e-5, ONE), ("-1.92e-5", 1.92e-5, DIFFERS),
        ("150", 150.0, ALL), ("150", 150.5, ALL), ("150", 149.4, ONE), ("150", 148.4, DIFFERS),
        ("99.8", 99.75, ALL), ("99.8", 99.74, ONE), ("99.8", 100.0, DIFFERS), ("1e15", 1.49e15, ALL),
        ("1e15", 0.51e15, ALL), ("1e15", 1.6e15, ONE), ("1e15", 3e15, DIFFERS), ("2.34e-1", 2.34, DIFFERS),
        ("20", 20, ALL), ("0", 0.0, ALL), ("0", 2.0, DIFFERS), ("2.000", 1.9996, ALL),
    ],
)  # fmt: skip
def test_a_number_agrees_within_half_a_unit_of_its_last_digit(published, computed, expected):
    assert judge_value(published, computed) is expected


@pytest.mark.parametrize(
    ("published", "computed", "expected"),
    [
        ("1.83e-10", 1.8301e-10, ALL), ("1.83e-10", 1.84e-10, ORDER), ("1.83e-10", 5.7e-10, ORDER),
        ("1.83e-10", 5.9e-10, DIFFERS), ("1.83e-10", 5.9e-11, ORDER), ("1.83e-10", 5.7e-11, DIFFERS),
        ("1.83e-10", -1.84e-10, DIFFERS), ("1.83e-10", 0.0, DIFFERS), ("-1.83e-10", -3e-10, ORDER),
    ],
)  # fmt: skip
def test_noise_is_judged_by_its_order_of_magnitude(published, computed, expected):
    assert judge_value(published, computed, Measure.order) is expected


@pytest.mark.parametrize(
    ("computed", "expected"), [(431.2, ALL), (500.0, ALL), (1e-9, ALL), (500.001, DIFFERS), (math.nan, DIFFERS)]
)
def test_a_bound_holds_up_to_its_value(computed, expected):
    assert judge_value("500", computed, Measure.bound) is expected


@pytest.mark.parametrize("measure", Measure)
@pytest.mark.parametrize("computed", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_differs_from_every_number(computed, measure):
    assert judge_value("4.50e-2", computed, measure) is DIFFERS


finite = st.floats(min_value=1e-290, max_value=1e290).flatmap(lambda size: st.sampled_from([size, -size]))
digits = st.integers(min_value=1, max_value=6)


@given(finite, digits)
def test_a_value_agrees_with_itself_rounded_once(value, k):
    assert judge_value(f"{value:.{k - 1}e}", value) is ALL


@given(finite, digits, st.floats(min_value=0.0, max_value=3.0))
def test_a_value_further_off_is_not_judged_better(value, k, units):
    text = f"{value:.{k - 1}e}"
    near, far = (judge_value(text, float(text) + size * find_last_digit(text)) for size in (0.5 * units, units))
    assert list(Verdict).index(near) <= list(Verdict).index(far)


def test_relative_difference_is_of_the_published_number():
    assert entry("4.50e-2", 0.0459).relative_difference == pytest.approx(0.02)
    assert entry("-2.0", -2.2).relative_difference == pytest.approx(-0.1)
    for published, computed in (("singular", "singular"), ("1e15", "singular"), ("0", 0.0)):
        assert math.isnan(entry(published, computed).relative_difference)


def test_a_known_difference_agrees_and_an_unexplained_one_does_not():
    assert entry("2.34e-1", 2.34, known="a misprint").agrees
    assert not entry("2.34e-1", 2.34).agrees
    assert entry("2.34e-1", 0.2345001).agrees  # one unit

"""Designs: axes that list or draw points, their values, their growth, and what a mistake says."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest

from evogt_study.errors import AccuracyWarning
from evogt_study.study.designs import RULES
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study

METHOD = """
def method(gamma=1.0, k=1, word="a", N=20, N1=0, tau=0.1, seed=0, t=0):
    return {"error": gamma}
"""
SAMPLE = """
[[sample]]
name = "point"
rule = "{rule}"
count = {count}
sample_seed = {seed}
gamma = {{ from = 2, to = 30, scale = "log" }}
k = {{ {k} }}
{more}
"""


@pytest.fixture
def read(tmp_path):
    """Called with the sections of a study of `METHOD`: the study."""
    (tmp_path / "m.py").write_text(METHOD)

    def made(text):
        return Study.from_text(f'name = "s"\nmethod = "m.py:method"\n{text}', str(tmp_path / "s.toml"))

    return made


def sample(rule="sobol", count=8, seed=1, k="from = 0, to = 1", more=""):
    return SAMPLE.format(rule=rule, count=count, seed=seed, k=k, more=more)


def points(study, *names):
    """The values of parameters over all cases."""
    return [tuple(case.values[name] for name in names) for case in cases(study)]


def cases(study):
    return sorted(plan_study(study)[-1].cases(), key=lambda case: case.index)


def keys(study):
    return plan_study(study)[-1].keys.astype(str).tolist()


# --- ranges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "values"),
    {
        "from = 0, to = 1, count = 5": [0.0, 0.25, 0.5, 0.75, 1.0],
        "from = 10, to = 40, count = 4": [10, 20, 30, 40],
        "from = 1, to = 1000, count = 4, scale = 'log'": [1, 10, 100, 1000],
        "from = 0.1, to = 0.5, step = 0.1": [0.1, 0.2, 0.3, 0.4, 0.5],
        "from = 0, to = 7, step = 3": [0, 3, 6],
        "start = 3, count = 2": [3, 4],
    }.items(),
)
def test_ranges_of_an_axis(read, given, values):
    study = read(f"[axes]\ngamma = {{ {given} }}")
    assert study.axes["gamma"] == values
    assert [type(value) for value in study.axes["gamma"]] == [type(value) for value in values]


# --- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"latin_hypercube"}))
def test_a_sample_keeps_its_points_when_it_grows(read, rule):
    small, large = keys(read(sample(rule, 4))), keys(read(sample(rule, 16)))
    assert large[: len(small)] == small
    assert len(set(large)) > len(set(small))


def test_parts_of_a_sample_are_the_sample(read):
    first, second = read(sample(count=8)), read(sample(count=8, more="start = 8"))
    assert keys(first) + keys(second) == keys(read(sample(count=16)))
    assert second.axes["point"] == list(range(8, 16))


def test_the_draws_of_a_sample_are_not_those_of_a_run_with_the_same_seed():
    """A function calls default_rng(seed), and a sample has the same seed."""
    for rule in ("random", "morris"):
        drawn_points = RULES[rule].draw(2, 3, 0).ravel()
        own = np.random.default_rng(0).random((3, 3, 2)).ravel()
        assert not set(np.round(drawn_points, 12)) & set(np.round(own, 12))


def is_latin(values):
    return sorted(np.floor(np.array(values) * len(values)).astype(int).tolist()) == list(range(len(values)))


@pytest.mark.parametrize("count", [1, 2, 7, 20, 96])
def test_a_latin_hypercube_has_a_point_in_each_interval_and_so_have_its_halves(count):
    drawn = RULES["latin_hypercube"].draw(3, count, 5)
    assert drawn.shape == (count, 3)
    assert all(is_latin(column) for column in drawn.T)
    if count % 2 == 0:
        np.testing.assert_array_equal(drawn[: count // 2], RULES["latin_hypercube"].draw(3, count // 2, 5))


@pytest.mark.parametrize("second_order", [False, True])
def test_saltellis_points_exchange_one_coordinate(second_order):
    d, count = 3, 8
    drawn = RULES["saltelli"].draw(d, count, 1, second_order=second_order).reshape(count, -1, d)
    a, b = drawn[:, 0], drawn[:, -1]
    for j in range(d):
        np.testing.assert_array_equal(drawn[:, 1 + j], np.where(np.arange(d) == j, b, a))
        if second_order:
            np.testing.assert_array_equal(drawn[:, 1 + d + j], np.where(np.arange(d) == j, a, b))
    assert drawn.shape[1] == (2 * d + 2 if second_order else d + 2)


def test_morris_trajectories_move_each_coordinate_once_by_the_same_step():
    d, count, levels = 4, 50, 6
    drawn = RULES["morris"].draw(d, count, 1, levels=levels).reshape(count, d + 1, d)
    steps = np.diff(drawn, axis=1)
    assert (np.count_nonzero(np.abs(steps) > 1e-12, axis=1) == 1).all()
    assert (np.count_nonzero(np.abs(steps) > 1e-12, axis=2) == 1).all()
    np.testing.assert_allclose(np.abs(steps).max(axis=2), levels / (2 * (levels - 1)))
    np.testing.assert_allclose(drawn * (levels - 1), np.round(drawn * (levels - 1)), atol=1e-12)
    assert (drawn.min(), drawn.max()) == (0.0, 1.0)


# --- distributions ----------------------------------------------------------------------------------------------------


def drawn(read, k, count=256, rule="sobol"):
    return [value for (value,) in points(read(sample(rule, count, k=k)), "k")]


def test_values_are_in_their_box_and_spread_evenly(read):
    values = drawn(read, "from = -1, to = 3")
    assert all(-1 <= value <= 3 for value in values)
    assert np.histogram(values, 8, (-1, 3))[0].tolist() == [32] * 8
    logs = np.log([gamma for (gamma,) in points(read(sample(count=256)), "gamma")])
    assert np.histogram(logs, 4, (math.log(2), math.log(30)))[0].tolist() == [64] * 4


def test_a_normal_distribution_has_its_mean_and_deviation(read):
    values = drawn(read, "normal = { mean = 8, std = 2 }", 1024)
    assert np.mean(values) == pytest.approx(8, abs=0.01)
    assert np.std(values) == pytest.approx(2, rel=0.01)


def test_integers_and_choices_occur_equally_often(read):
    values = drawn(read, "integers = { from = 3, to = 6 }")
    assert all(isinstance(value, int) for value in values)
    assert sorted(set(values)) == [3, 4, 5, 6]
    assert {values.count(value) for value in set(values)} == {64}
    words = drawn(read, 'choice = ["a", "b"]', rule="morris", count=20)
    assert set(words) == {"a", "b"}


def test_values_have_few_digits_that_all_processors_agree_on(read):
    for value in itertools.chain.from_iterable(points(read(sample()), "gamma", "k")):
        assert value == float(f"{value:.12g}")


def test_a_count_that_leaves_the_sequence_unbalanced_is_told_in_a_line(read):
    with pytest.warns(
        AccuracyWarning, match=r"`count` of the sample point is 12: .* such as 8 or 16 .*sample\[0\].count\)"
    ):
        read(sample(count=12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(sample("halton", count=12))


# --- listed points ----------------------------------------------------------------------------------------------------

ZIPPED = '[[zip]]\nname = "level"\nN = [20, 40]\nk = [1, 2]\n'


def test_rows_and_a_file_are_the_same_points(read, tmp_path):
    rows = read(
        '[[table]]\nname = "case"\nrows = [{ N = 20, tau = 1e-8, word = "x" }, { N = 40, tau = 1, word = "y" }]'
    )
    (tmp_path / "cases.csv").write_text("\ufeffN;tau;word\r\n20;1e-8;x\r\n\r\n40;1.0;y\r\n", encoding="utf-8")
    file = read('[[table]]\nname = "case"\nfile = "cases.csv"')
    assert points(rows, "N", "tau", "word") == points(file, "N", "tau", "word") == [(20, 1e-8, "x"), (40, 1.0, "y")]
    (tmp_path / "cases.csv").unlink()  # its content is in the text, which is read again wherever it is
    assert keys(Study.from_text(file.text, str(tmp_path / "s.toml"), recorded=True)) == keys(file)


def test_designs_of_all_kinds_multiply(read):
    listed = '[[table]]\nname = "case"\nrows = [{ tau = 0.5 }, { tau = 0.25 }]\n'
    study = read(f'{ZIPPED.replace("k =", "t =")}{sample(count=4)}{listed}[axes]\nword = ["a", "b"]')
    assert study.space.names == ("level", "point", "case", "word")
    assert len(set(keys(study))) == len(study) == 32


def test_rules_exclusions_and_formulas_know_parameters_along_a_design(read):
    study = read(
        ZIPPED
        + """
        [axes]
        word = ["a", "b"]
        [constants]
        N1 = { formula = "4*N + t" }
        t = { formula = "k/2" }
        [[when]]
        match = { N = 40 }
        set = { tau = 0.5 }
        [[exclude]]
        match = { k = 1, word = ["b"] }
        """
    )
    assert points(study, "N", "word", "tau", "N1") == [(20, "a", 0.1, 80.5), (40, "a", 0.5, 161), (40, "b", 0.5, 161)]
    assert (len(study), study.space.size, plan_study(study)[-1].space.count) == (3, 4, 3)
    assert keys(study)[1] == ""
    assert study.space.find_dependence("N1") == ("level",)


def test_a_formula_gives_way_to_a_rule(read):
    rule = '[[when]]\nmatch = { word = "b" }\nset = { N1 = 7 }'
    study = read(f'[axes]\nword = ["a", "b"]\n[constants]\nN1 = {{ formula = "4*N" }}\n{rule}')
    assert points(study, "N1") == [(80,), (7,)]


def test_a_run_has_the_key_that_it_has_in_a_study_of_other_form(read):
    plain = read("[axes]\nN = [20, 40]\n[constants]\nk = 1\n[[when]]\nmatch = { N = 40 }\nset = { k = 2 }")
    assert keys(read(ZIPPED)) == keys(plain)
    assert keys(read("[axes]\nN = [20, 40]\n[constants]\nk = { formula = 'N/20' }")) == keys(plain)


def test_a_design_is_described_along_its_dimension(read):
    axis = read(sample("saltelli", 4)).space.axis("point")
    described = json.loads(axis.description)
    assert described["parameters"] == {"gamma": {"from": 2, "to": 30, "scale": "log"}, "k": {"from": 0, "to": 1}}
    del described["parameters"]
    assert described == {"kind": "sample", "rule": "saltelli", "count": 4, "sample_seed": 1, "second_order": False}
    assert len(axis.values) == 4 * (2 + 2)

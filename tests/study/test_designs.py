"""Designs: axes that list or draw points, their values, their growth, and what a mistake says."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest

from evogt_study.errors import DoubtWarning, StudyError
from evogt_study.study.plan import study_plan
from evogt_study.study.sampled import RULES
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
    return sorted(study_plan(study).cases(), key=lambda case: case.index)


def keys(study):
    return study_plan(study).keys.astype(str).tolist()


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


def test_a_logarithmic_range_has_equal_ratios(read):
    values = read('[axes]\ngamma = { from = 1, to = 30, count = 12, scale = "log" }').axes["gamma"]
    assert {type(value) for value in values} == {float}  # of the ends too, though they are written as integers
    np.testing.assert_allclose(np.diff(np.log(values)), math.log(30) / 11, rtol=1e-10)
    assert (values[0], values[-1]) == (1, 30)


# --- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"latin_hypercube"}))
def test_a_sample_keeps_its_points_when_it_grows(read, rule):
    small, large = keys(read(sample(rule, 4))), keys(read(sample(rule, 16)))
    assert large[: len(small)] == small
    assert len(set(large)) > len(set(small))


def test_512_points_of_a_sobol_sequence_are_the_first_of_1024(read):
    small, large = keys(read(sample(count=512))), keys(read(sample(count=1024)))
    assert small == large[:512]
    assert len(set(large)) == 1024


def test_parts_of_a_sample_are_the_sample(read):
    first, second = read(sample(count=8)), read(sample(count=8, more="start = 8"))
    assert keys(first) + keys(second) == keys(read(sample(count=16)))
    assert second.axes["point"] == list(range(8, 16))


def test_the_points_of_a_seed_are_its_own(read):
    assert not set(keys(read(sample(seed=1)))) & set(keys(read(sample(seed=2))))


def test_the_draws_of_a_sample_are_not_those_of_a_run_with_the_same_seed():
    """A function calls default_rng(seed), and a sample has the same seed."""
    for rule in ("random", "morris"):
        drawn_points = RULES[rule].draw(2, 3, 0).ravel()
        own = np.random.default_rng(0).random((3, 3, 2)).ravel()
        assert not set(np.round(drawn_points, 12)) & set(np.round(own, 12))


def test_levels_that_reach_no_value_of_a_choice_are_told(read):
    """Four levels of Morris reach four of six integers, and all of three."""
    said = r"trajectories of point with 4 levels reach 4 of 6 values of `k` \(.*sample\[0\]\.levels\)"
    with pytest.warns(DoubtWarning, match=said):
        read(sample("morris", 4, k="integers = { from = 1, to = 6 }"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(sample("morris", 4, k="integers = { from = 1, to = 3 }"))
        read(sample("morris", 4, k="integers = { from = 1, to = 6 }", more="levels = 6"))


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
    with pytest.warns(DoubtWarning, match=r"`count` of the sample point is 12: .* as 8 or 16 .*sample\[0\].count\)"):
        read(sample(count=12))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(sample("halton", count=12))


# --- listed points ----------------------------------------------------------------------------------------------------

ZIPPED = '[[zip]]\nname = "level"\nN = [20, 40]\nk = [1, 2]\n'


def test_parameters_that_change_together(read):
    assert points(read(ZIPPED + "[axes]\nseed = [5, 6]"), "N", "k", "seed") == [
        (20, 1, 5), (20, 1, 6), (40, 2, 5), (40, 2, 6),
    ]  # fmt: skip


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
    assert (len(study), study.space.size, study_plan(study).count) == (3, 4, 3)
    assert keys(study)[1] == ""
    assert study.space.dependence("N1") == ("level",)


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
    told = json.loads(axis.points.description)
    assert told["parameters"] == {"gamma": {"from": 2, "to": 30, "scale": "log"}, "k": {"from": 0, "to": 1}}
    del told["parameters"]
    assert told == {"kind": "sample", "rule": "saltelli", "count": 4, "sample_seed": 1, "second_order": False}
    assert len(axis.values) == 4 * (2 + 2)


# --- mistakes ---------------------------------------------------------------------------------------------------------

AXIS = "[axes]\nseed = [0]\n"
MISTAKES = {
    "from >= to": (sample(k="from = 2, to = 2"), "`from` must be below `to` = 2, got 2", "sample[0].k.from"),
    "log from 0": (sample(k='from = 0, to = 1, scale = "log"'), "`from` must be above 0 on a logarithmic", ".k.from"),
    "scale": (sample(k='from = 1, to = 2, scale = "lin"'), '`scale` must be "linear" or "log", got', ".k.scale"),
    "std": (sample(k="normal = { mean = 1, std = -1 }"), "`std` must be above 0, got -1", "sample[0].k.normal.std"),
    "too wide": (sample(k="from = -1.7e308, to = 1.7e308"), "`from` must be nearer to `to` = 1.7e+308", ".k.from"),
    "a range too wide": ("[axes]\ngamma = { from = -1e308, to = 1e308, count = 3 }", "`from` must be near", ".gamma"),
    "beyond all numbers": (sample(k=f"from = 1, to = 1{400 * '0'}"), "`to` must be a finite number", "sample[0].k.to"),
    "far tails": (sample(k="normal = { mean = 1e308, std = 1e308 }"), "whose values are finite numbers", ".k.normal"),
    "more integers than numbers": (
        sample(k="integers = { from = 1, to = 99999999999999999999 }"), "fewer than 9,007,199,254,740,992", ".integers",
    ),
    "a device": ('[[table]]\nname = "c"\nfile = "/dev/zero"', "the table /dev/zero: it is a folder, a pipe", ""),
    "NUL": ('[axes]\nword = ["a\\u0000", "a"]', "`word` must be ", "axes.word[0]"),
    "key of a box": (sample(k="from = 1, too = 2"), "unknown key `too`", "did you mean `to`?"),
    "key of a distribution": (sample(k="norml = { mean = 1 }"), "unknown key `norml`", "did you mean `normal`?"),
    "integers beyond what a float holds": (
        sample(k="integers = { from = 9223372036854775806, to = 9223372036854775813 }"), "two integers of at most",
    ),
    "no key of a sample": (sample(k="zzz = 1"), "unknown key `zzz`", "from, to, scale, integers, normal, choice"),
    "no distribution": (sample(more="tau = 3"), "`tau` must be { from, to }", "one value belongs in [constants]"),
    "unknown parameter": (sample(more="gama = { from = 1, to = 2 }"), "unknown parameter `gama`", "`gamma`?"),
    "rule": (sample("sobel"), "`rule` must be one of sobol, halton,", "got 'sobel' ("),
    "count": (sample(count=0), "`sample.0.count` must be greater than or equal to 1, got 0", ""),
    "option of another rule": (sample(more="levels = 4"), "`levels` must be left out with the rule sobol", ".levels)"),
    "odd levels": (sample("morris", more="levels = 3"), "`levels` must be even", "got 3 ("),
    "unbounded for morris": (sample("morris", k="normal = { mean = 1, std = 1 }"), "`k` must be bounded", "use { from"),
    "a part of a hypercube": (sample("latin_hypercube", more="start = 4"), "`start` must be 0 with the rule", "got 4"),
    "no rule": ('[[sample]]\nname = "p"\ncount = 4\ngamma = { from = 1, to = 2 }', "`sample.0.rule` must be given", ""),
    "no parameter": ('[[sample]]\nname = "p"\nrule = "sobol"\ncount = 4', "`p` must have at least one parameter", ""),
    "a parameter as name": (sample().replace('"point"', '"tau"'), "`tau` must be a new name", "that of a parameter"),
    "a name of the result": (
        sample().replace('"point"', '"run_status"'), "`run_status` must have another name", ".name)",
    ),
    "no word": (sample().replace('"point"', '"a b"'), "`name` must be a word of letters, digits and _", ".name)"),
    "a name twice": (
        sample() + ZIPPED.replace("level", "point").replace("k =", "t ="), "`point` must be given once", "sample[0]",
    ),
    "a parameter twice": (sample() + ZIPPED, "`k` must be given once, got it in zip[0].k too", "sample[0].k"),
    "axis and design": (ZIPPED + "[axes]\nN = [1]", "`N` must be given once, got it in axes.N too", "zip[0].N"),
    "constant and design": (ZIPPED + "[constants]\nN = 1", "`N` must be given once, got it in constants.N too", ""),
    "lengths": (ZIPPED + "tau = [1]", "`tau` must have as many values as `N`, 2, got 1: [1]", ".tau)"),
    "alone together": ('[[zip]]\nname = "level"\nN = [1, 2]', "`level` must have at least two param", "[axes]"),
    "rows differ": (
        '[[table]]\nname = "c"\nrows = [{ N = 1 }, { k = 1 }]', "`N` must be given in every row", "table[0].rows[1])",
    ),
    "rows differ otherwise": (
        '[[table]]\nname = "c"\nrows = [{ N = 1 }, { N = 2, k = 1 }]', "`k` must be given in every row", "rows[0])",
    ),
    "rows and file": ('[[table]]\nname = "c"', "`c` must have `rows` or `file`, got neither (", "table[0])"),
    "no such file": ('[[table]]\nname = "c"\nfile = "none.csv"', "cannot read the table ", "No such file"),
    "range": ("[axes]\ngamma = { from = 3, to = 1, count = 4 }", "`from` must be below `to` = 1, got 3", "axes.gamma"),
    "count of a range": ("[axes]\nk = { from = 1, to = 3, count = 0 }", "`count` must be an integer from 2", "got 0"),
    "step": ("[axes]\ngamma = { from = 1, to = 3, step = -1 }", "`step` must be above 0, got -1", "axes.gamma.step"),
    "cycle": (
        AXIS + "[constants]\nN1 = { formula = '4*N' }\nN = { formula = 'N1/4' }",
        "formulas must not use each other, got N", "constants.N",
    ),
    "unknown name": (AXIS + "[constants]\nN1 = { formula = '4*M' }", "unknown parameter `M` in '4*M'", "known are"),
    "grammar": (AXIS + "[constants]\nN1 = { formula = '__import__(1)' }", "`formula` must be made of", ".N1.formula"),
    "key of a formula": (AXIS + "[constants]\nN1 = { formula = 'N', x = 1 }", '`N1` must be { formula = "..." }', ""),
    "not a number": (AXIS + "[constants]\nN1 = { formula = '2*word' }", "`word` must be a number where", "got 'a'"),
    "infinite": (AXIS + "[constants]\nN1 = { formula = '1/(N - 20)' }", "`N1` must be a finite number", "for N = 20"),
    "excludes nothing": (
        "[axes]\nN = [1, 2]\n[[exclude]]\nmatch = { N = 3 }", "no case: N has no value 3", "exclude[0].match.N)",
    ),
    "excludes no point": (
        ZIPPED + "[[exclude]]\nmatch = { N = 20, k = 2 }", "no level has N = 20 and k = 2", "exclude[0].match)",
    ),
    "excludes all": ("[axes]\nN = [1]\n[[exclude]]\nmatch = { N = 1 }", "`exclude` must leave a case, got none of 1 p"),
    "excludes a constant": ("[axes]\nN = [1]\n[[exclude]]\nmatch = { k = 1 }", "`match` must name axes (N), got 'k'"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_a_line_with_its_place(read, mistake):
    text, *told = MISTAKES[mistake]
    with pytest.raises(StudyError) as error:
        read(text)
    assert "\n" not in str(error.value)
    assert all(part in str(error.value) for part in told), str(error.value)
    assert "s.toml" in str(error.value)


CELLS = {
    "N,k\n1,\n": "cases.csv must have a value in each cell, got an empty one for `k` in line 2",
    "N,k\n1,2,3\n": "cases.csv must have 2 cells in each row, got 3 cells in line 2",
    "N,N\n1,2\n": "cases.csv must have a header of different names, got N twice",
    "N,k\n": "cases.csv must have a header and at least one row, got 1 lines",
    'N,k\n1,"x\n2,y\n': "cases.csv must be a table of CSV, got one in which unexpected end of data",
    f"N,k\n1,{140_000 * '1'}\n": "cases.csv must be a table of CSV, got one in which field larger than field limit",
    "N,kk\n1,2\n": "unknown parameter `kk`",
}


@pytest.mark.parametrize("content", CELLS)
def test_a_mistake_in_a_file_is_told_with_its_line(read, tmp_path, content):
    (tmp_path / "cases.csv").write_text(content)
    with pytest.raises(StudyError) as error:
        read('[[table]]\nname = "case"\nfile = "cases.csv"')
    assert CELLS[content] in str(error.value)
    assert "s.toml" in str(error.value)

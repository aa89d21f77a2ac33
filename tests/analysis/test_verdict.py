"""Verdicts: which label is best, how sure that is, on what it depends, in numbers and in a sentence."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import evogt_study as evs
from evogt_study.errors import InputError, ParameterError

RESULTS = Path(__file__).parents[2] / "data" / "results"


def labelled(values, labels=("T", "G", "R"), **more):
    values = np.asarray(values, dtype=float)
    coords = {"dictionary": list(labels)[: len(values)], "seed": range(values.shape[-1]), **more}
    return xr.DataArray(values, coords, ["dictionary", *more, "seed"], name="error")


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).lognormal(0.0, 0.5, shape)


def test_a_clear_winner_is_settled_and_said_so():
    values = labelled(drawn(3, 20) * np.array([20.0, 1.0, 30.0])[:, None])
    found = evs.verdict(values, "dictionary")
    assert bool(found["settled"])
    assert found["pair"].values.tolist() == ["T/G", "T/R", "G/R"]
    np.testing.assert_allclose(found["effect"].sel(pair="T/G"), values[0].mean() / values[1].mean())
    assert found["best_run"].values.tolist() == [0.0, 1.0, 0.0]
    assert found["without"].values.tolist() == [0, 20, 0]
    assert found["winner"].values.tolist() == [["G", "G", "G"]]
    assert str(found["verdict"].values) == (
        "G is best; best in 100% of 20 common seeds; on average best with probability 0.999; the same by every measure"
    )


@pytest.mark.filterwarnings("error")
def test_infinite_values_are_losses():
    """T is better on most seeds, and has no bound on the others: those alone would make it the best."""
    rows = np.array([[1.0] * 6 + [np.inf] * 4, [2.0] * 10, [3.0] * 10])
    found = evs.verdict(labelled(rows), "dictionary")
    assert found["value"].values[0].tolist() == [np.inf, 1.0, np.inf]
    assert found["winner"].values.tolist() == [["G", "T", "G"]]
    assert int(found["n_common"]) == 10
    assert found["best_run"].values.tolist() == [0.6, 0.4, 0.0]
    assert found["without"].values.tolist() == [0, 10, 0]
    assert float(found["best_mean"][1]) > 0.9
    assert np.isnan(found["effect_ci"][0]).all()
    assert np.isnan(found["p_value"][0])
    np.testing.assert_allclose(found["effect"], [np.inf, np.inf, 2.0 / 3.0])
    assert not found["settled"]
    assert str(found["verdict"].values).startswith("G has the best mean, not told apart from T; best in 40% of 10")


@pytest.mark.filterwarnings("error")
def test_of_infinite_means_none_is_best():
    found = evs.verdict(labelled([[1.0] * 9 + [np.inf], [np.inf] + [2.0] * 9]), "dictionary")
    assert str(found["verdict"].values) == "no label has a finite mean"
    assert found["winner"].values.tolist() == [["", "T", ""]]
    assert found["without"].values.tolist() == [1, 1]


def test_equal_labels_are_not_told_apart():
    found = evs.verdict(labelled(drawn(2, 20)), "dictionary")
    assert not found["settled"]
    assert "not told apart from" in str(found["verdict"].values)
    assert float(found["effect_ci"][0, 0]) < 1.0 < float(found["effect_ci"][0, 1])
    assert float(found["p_value"][0]) > 0.05


def test_it_says_where_the_winner_changes():
    """G has the lower median, and one bad seed: by mean and worst T wins, and without that seed G does."""
    good, bad = np.full(12, 2.0) + 0.01 * np.arange(12), np.full(12, 1.0) + 0.01 * np.arange(12)
    bad[3] = 40.0
    h1 = labelled([bad, good], "TG")
    found = evs.verdict(labelled([good, bad], "TG"), "dictionary", metrics={"error_h1": h1})
    assert found["winner"].sel(metric="error").values.tolist() == ["T", "G", "T"]
    assert found["winner"].sel(metric="error_h1").values.tolist() == ["G", "T", "G"]
    assert found["without"].values.tolist() == [11, 1]
    told = str(found["verdict"].values)
    for words in ("G by the median of error", "G by the mean of error_h1", "G without 1 of the seeds"):
        assert words in told


def test_it_says_from_which_time_for_a_run_a_label_wins():
    values = labelled(drawn(3, 10) * np.array([20.0, 1.0, 30.0])[:, None])
    seconds = xr.zeros_like(values) + xr.DataArray([1.0, 5.0, 2.0], dims="dictionary")
    found = evs.verdict(values, "dictionary", seconds=seconds)
    np.testing.assert_array_equal(found["best_from"], [1.0, 5.0, np.nan])
    assert "T where a run may take less than 5 s" in str(found["verdict"].values)


def test_each_cell_has_its_own_and_pooled_cells_have_seeds_as_units():
    values = labelled(drawn(3, 2, 20) * np.array([20.0, 1.0, 30.0])[:, None, None], epsilon=[0.1, 0.2])
    each, pooled = evs.verdict(values, "dictionary"), evs.verdict(values, "dictionary", ["epsilon", "seed"])
    assert each["verdict"].dims == ("epsilon",)
    assert int(pooled["n_common"]) == 20
    alike = xr.concat([values.isel(epsilon=0)] * 2, "epsilon").transpose("dictionary", "epsilon", "seed")
    one = evs.verdict(values.isel(epsilon=0), "dictionary")
    np.testing.assert_allclose(evs.verdict(alike, "dictionary", ["epsilon", "seed"])["effect_ci"], one["effect_ci"])


def test_missing_seeds_are_left_out_of_all_and_labels_without_any_take_no_part():
    values = labelled(drawn(3, 12) * np.array([20.0, 1.0, 30.0])[:, None])
    values[0, 2], values[2] = np.nan, np.nan
    found = evs.verdict(values, "dictionary", missing="drop")
    assert (int(found["n_common"]), bool(found["settled"])) == (11, True)
    assert np.isnan(found["effect"].sel(pair="G/R"))
    few = evs.verdict(values[:, :4], "dictionary", missing="drop")
    assert not few["settled"]
    assert "too few to say more" in str(few["verdict"].values)
    assert np.isnan(few["effect_ci"]).all()


def test_values_of_both_signs_have_differences():
    values = labelled(np.random.default_rng(1).normal(0.0, 1.0, (2, 20)) + np.array([[0.0], [5.0]]))
    found = evs.verdict(values, "dictionary", better="higher")
    assert (found.attrs["effect"], bool(found["settled"])) == ("difference", True)
    np.testing.assert_allclose(found["effect"][0], values[0].mean() - values[1].mean())
    assert str(found["verdict"].values).startswith("G is best")


def test_of_a_result_it_uses_the_times_of_its_runs():
    with evs.open(RESULTS / "oscillatory_1d.nc") as ds:
        found = ds.evogt.verdict("dictionary")
    assert found["settled"].all()
    assert [str(told).split(";")[0] for told in found["verdict"].values] == ["gtransnet is best"] * 3
    assert "seconds" in found


def test_the_command_prints_sentences_and_pairs(evogt):
    code, out, _ = evogt("verdict", RESULTS / "oscillatory_1d.nc", "dictionary", "--at", "epsilon=0.1")
    assert code == 0
    assert out.startswith("gtransnet is best; best in 100% of 20 common seeds;")
    assert "transnet/gtransnet       2.05e+02" in out
    assert evogt("verdict", RESULTS / "oscillatory_1d.nc", "seed")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        (("dict",), {}, InputError, "`dim` must be one of dictionary, got 'dict'"),
        (("dictionary",), {"better": "less"}, ParameterError, "`better` must be one of lower, higher"),
        (
            ("dictionary",),
            {"metrics": {"h": labelled(drawn(3, 4))[0]}},
            ParameterError,
            "`metrics` must be over dictionary",
        ),
    ],
)
def test_what_cannot_be_judged_is_told(arguments, options, error, said):
    with pytest.raises(error) as caught:
        evs.verdict(labelled(drawn(3, 8)), *arguments, **options)
    assert said in str(caught.value)
    with pytest.raises(InputError, match="`dim` must have at least two labels, dictionary has 1"):
        evs.verdict(labelled(drawn(1, 8)), "dictionary")

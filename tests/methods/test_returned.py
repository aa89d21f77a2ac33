"""Results of SciPy become records, and what cannot be stored is named once."""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import evogt_study as evs
from evogt_study.errors import ReturnWarning
from evogt_study.methods.function import to_record


def square(x):
    return float((x[0] - 1) ** 2)


def half(t, y):
    return y[0] - 0.5


def never(t, y):
    return y[0] + 9


SAMPLE, OTHER = [0.0, 1.0, 2.0], [0.0, 1.0, 4.0]
RESULTS = {
    "Nelder-Mead": (lambda: optimize.minimize(square, [0.0], method="Nelder-Mead"), "x final_simplex_0"),
    "L-BFGS-B": (lambda: optimize.minimize(square, [0.0], method="L-BFGS-B"), "x fun status message success"),
    "trust-constr": (lambda: optimize.minimize(square, [0.0], method="trust-constr"), "x method optimality"),
    "least_squares": (lambda: optimize.least_squares(lambda x: x - 1, [0.0]), "x cost jac"),
    "linprog": (lambda: optimize.linprog([1.0], bounds=[(0, 1)]), "x lower_residual upper_marginals"),
    "root_scalar": (lambda: optimize.root_scalar(lambda x: x - 1, bracket=[0, 3]), "root converged method"),
    "solve_ivp": (
        lambda: integrate.solve_ivp(lambda t, y: -y, [0, 1], [1.0], events=[half, never], dense_output=True),
        "t y t_events_0 y_events_0 status",
    ),
    "ttest_ind": (lambda: stats.ttest_ind(SAMPLE, OTHER), "statistic pvalue df"),
    "linregress": (lambda: stats.linregress(SAMPLE, OTHER), "slope intercept intercept_stderr"),
    "ks_2samp": (lambda: stats.ks_2samp(SAMPLE, OTHER), "statistic pvalue statistic_location"),
    "bootstrap": (
        lambda: stats.bootstrap((SAMPLE,), np.mean, n_resamples=9, method="basic"),
        "confidence_interval_low confidence_interval_high standard_error",
    ),
    "ecdf": (lambda: stats.ecdf(SAMPLE), "cdf_quantiles cdf_probabilities sf_probabilities"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_scipy_become_variables(name):
    compute, expected = RESULTS[name]
    record = to_record(compute())
    assert set(expected.split()) <= set(record.variables)
    assert not any(each.startswith("_") for each in record.variables)
    assert all(datum.values.dtype.kind in "biufU" for datum in record.variables.values())


def test_a_field_without_a_value_is_named_and_a_key_without_one_is_missing():
    record = to_record(optimize.OptimizeResult(x=1.0, sol=None, f=square))
    assert record.left_out == ("`f` (a function)", "`sol` (None)")
    assert to_record({"x": 1.0, "sol": None}).left_out == ()
    assert to_record({"x": None}).variables == {}


def test_a_study_warns_once_of_all_that_was_left_out(tmp_path):
    study = evs.Study(lambda seed: {"v": seed, "f": print if seed else 1.0}, axes={"seed": [0, 1, 2]})
    with pytest.warns(ReturnWarning, match=r"cannot hold `f` \(a function\)") as warned:
        data = evs.run(study, output=tmp_path / "a.nc")
    assert len(warned) == 1
    assert data.run_status.values.tolist() == ["ok"] * 3
    np.testing.assert_array_equal(data.f.values, [1.0, np.nan, np.nan])


def test_a_direction_of_a_variable_that_no_run_returns_is_named(tmp_path):
    study = evs.Study(lambda seed: {"accuracy": seed}, axes={"seed": [0, 1]}, output={"better": {"acuracy": "higher"}})
    with pytest.warns(ReturnWarning, match="no run returned `acuracy`.* Did you mean `accuracy`"):
        evs.run(study, output=tmp_path / "a.nc")

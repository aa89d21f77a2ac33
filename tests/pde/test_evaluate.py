"""One run by `solve`: what it is measured against, other norms, a field, and its values anywhere, from file too."""

import numpy as np
import pytest
import xarray as xr

from evogt_study import pde
from evogt_study.errors import AccuracyWarning, ResultError

DICTIONARY = pde.Dictionary("gtransnet", N=40, N1=80, gamma=4)
WAVE = "exp(-t)*sin(pi*x)"
RUN = {"seed": 0, "quadrature": 60, "dt": 0.02, "final_time": 0.2, "validation": 60, "times": 3}


def solved(formulas, dictionary=DICTIONARY, dimension=1, **options):
    return pde.solve(pde.FormulaProblem(dimension, **formulas)(), dictionary, **{**RUN, **options})


@pytest.mark.parametrize(
    ("dimension", "formulas", "points", "options"),
    [
        (1, {"exact": WAVE}, [0.0, 0.3, 1.0], {}),
        (1, {"exact": f"{WAVE}+x*exp(-t*k)", "lifting": "x*exp(-t*k)"}, [0.0, 0.3, 1.0], {}),
        (1, {"exact": "exp(-t)*sin(2*pi*x)", "boundary": {"x": "periodic"}}, [0.1, 0.7], {"quadrature": 100}),
        (2, {"exact": f"{WAVE}*sin(pi*y/2)", "domain": {"lower": [0, 0], "upper": [1, 2]}}, [[0.2, 1.7]], {}),
        (2, {"exact": "exp(-t)*x*y*(1-x-y)", "domain": {"polygon": [[0, 0], [1, 0], [0, 1]]}}, [[0.2, 0.5]],
         {"quadrature": {"rule": "triangles", "refinements": 2, "degree": 8}, "validation": None}),
    ],
)  # fmt: skip
def test_a_run_is_evaluated_anywhere_from_a_file_too(dimension, formulas, points, options, tmp_path):
    stated = pde.FormulaProblem(dimension, **formulas)
    problem = stated(**dict.fromkeys(stated.parameters, 2.0))
    quadrature = options.get("quadrature", {1: 60, 2: 20}[dimension])
    one = pde.solve(problem, DICTIONARY, **{**RUN, "validation": 30, **options, "quadrature": quadrature})
    values = pde.evaluate(one, points)
    assert values.dims == ("time", "point")
    nodes = np.reshape(np.array(points, dtype=float), (-1, dimension))
    exact = problem.exact(nodes, one.time.values)
    assert values.values == pytest.approx(exact, abs=30 * float(one.error) + 1e-4)
    assert values["x"].values.tolist() == nodes[:, 0].tolist()
    path = tmp_path / "one.nc"
    one.to_netcdf(path)
    assert np.array_equal(pde.evaluate(path, points), values)
    with xr.open_dataset(path) as opened:
        assert np.array_equal(pde.evaluate(opened, points), values)


def test_a_file_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "no.nc").write_text("none")
    with pytest.raises(ResultError, match="cannot read"):
        pde.evaluate(tmp_path / "no.nc", [0.1])


COARSE = {"dt": 0.05, "times": 2}


def test_errors_by_each_reference_are_the_true_ones(tmp_path):
    exact = float(solved({"exact": WAVE}, **COARSE).error)
    initial = {"initial": "sin(pi*x)", "source": "(pi**2-1)*exp(-t)*sin(pi*x)"}
    fine = solved({"exact": WAVE}, pde.Dictionary("gtransnet", N=80, N1=160, gamma=4), dt=0.05 / 8, quadrature=120)
    fine.to_netcdf(tmp_path / "fine.nc")
    (tmp_path / "truth.py").write_text(
        "import numpy as np\ndef u(x, t):\n    return np.exp(-t) * np.sin(np.pi * x[:, 0])\n"
    )
    named = {
        "finite_elements": {"reference_points": 60},
        "finite_difference": {"reference_points": 400, "reference_dt": 0.05 / 16},
        "refined": {},
        str(tmp_path / "fine.nc"): {},
        f"{tmp_path / 'truth.py'}:u": {},
    }
    for reference, options in named.items():
        found = solved(initial, reference=reference, **COARSE, **options)
        assert float(found.error) == pytest.approx(exact, rel=0.07), reference
    assert (
        0.0 < float(solved(initial, reference="finite_elements", reference_points=60, **COARSE).reference_error) < 1e-5
    )


def test_a_reference_that_is_too_coarse_is_doubted():
    with pytest.warns(
        AccuracyWarning, match="reference_share is above 0.1.*`reference_error` is a .*Increase `reference_points`"
    ):
        found = solved({"exact": WAVE}, reference="finite_elements", reference_points=4)
    assert float(found.reference_share) == pytest.approx(float(found.reference_error / found.error))


def test_other_norms_are_those_of_the_difference():
    names = ["error_absolute", "error_max", "error_h1", "error_max_over_time"]
    lifted = {"exact": f"{WAVE}+x", "lifting": "x"}
    for formulas in ({"exact": WAVE}, lifted):
        one = solved(formulas, norms=names, times=None, **{"dt": 0.05})
        x, w = (part.ravel() for part in np.polynomial.legendre.leggauss(60))
        x, w = (x + 1) / 2, w / 2
        h, shift = 1e-6, x if formulas is lifted else 0 * x
        numerical = pde.evaluate(one, np.concatenate([x, x + h, x - h]))[-1].values.reshape(3, -1)
        exact, slope = np.exp(-0.2) * np.sin(np.pi * x) + shift, np.exp(-0.2) * np.pi * np.cos(np.pi * x) + (shift != 0)
        difference, steep = numerical[0] - exact, (numerical[1] - numerical[2]) / (2 * h) - slope
        assert float(one.error_absolute) == pytest.approx(np.sqrt(w @ difference**2), rel=1e-9)
        assert float(one.error_max) == pytest.approx(np.abs(difference).max() / np.abs(exact).max(), rel=1e-9)
        assert float(one.error_h1) == pytest.approx(np.sqrt(w @ steep**2 / (w @ slope**2)), rel=1e-3)
        assert float(one.error_max_over_time) == float(one.error_history.max())

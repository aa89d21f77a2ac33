"""How far a pilot's choice is from the one that knows the answer."""

import numpy as np
import xarray as xr

from evogt_study.analysis.summary_table import describe_pilot, pilot_distance


def pilot(minimise):
    """Three candidates at two points; the second point's least estimate is not at its least error."""
    values = {"error": [[3.0, 1.0, 2.0], [2.0, 4.0, 1.0]], "error_upper": [[3.0, 1.5, 2.0], [1.0, 4.0, 2.0]]}
    data = {name: (("k", "candidate", "seed"), np.array(table)[:, :, None]) for name, table in values.items()}
    data["run_status"] = (("k", "candidate", "seed"), np.ones((2, 3, 1), dtype=np.int8))
    study = f'[pilot]\nminimise = "{minimise}"\nby = ["k"]\n'
    return xr.Dataset(data, {"k": [5, 7]}, {"study": study})


def test_how_far_the_choice_is():
    np.testing.assert_array_equal(pilot_distance(pilot("error_upper")), [1.0, 2.0])
    text = describe_pilot(pilot("error_upper"))
    assert "1 of 2 choices also minimise the error" in text
    assert "at most 2 times (k = 7)" in text
    assert describe_pilot(pilot("error")) == ""

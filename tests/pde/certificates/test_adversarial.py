"""Error intervals of hard linear runs contain the true errors; of ordinary long runs they are finite."""

import numpy as np
import pytest
from adversarial import judged_runs


@pytest.mark.slow
@pytest.mark.parametrize(("hard", "count"), [(True, 300), (False, 100)])
def test_intervals(hard, count):
    with np.errstate(all="ignore"):
        found = judged_runs(count, hard)
    assert [run for run in found if not run[2] <= run[1] <= run[3]] == []
    if not hard:
        assert sum(np.isinf(upper) for *_, upper in found) <= 0.1 * count


def test_an_ordinary_long_run_has_a_finite_interval():
    ((_, error, lower, upper),) = judged_runs(1, False)
    assert lower <= error <= upper < 2.0 * error

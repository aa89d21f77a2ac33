"""A pilot says what keeps it from choosing."""

import pytest
from conftest import computed_table
from helpers import PILOTED

from evogt_study.errors import PilotError
from evogt_study.results.decisions import choose
from evogt_study.study.plan import provisional_plans


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("('k', [1.0, 2.0])", r"it is a variable of numbers over \(k\), not a number"),
        ("'word'", "it is a variable of strings over"),
    ],
)
def test_what_a_pilot_cannot_minimise(own_study, returned, said):
    study = own_study(f"def method(seed, gamma, target):\n    return {{'error': {returned}}}\n", PILOTED)
    table = computed_table(provisional_plans(study)[0])
    with pytest.raises(PilotError, match=f"cannot minimise `error`: {said}"):
        choose(study.pilot, table)

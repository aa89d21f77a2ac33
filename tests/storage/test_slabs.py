"""Large arrays part by part: every value once, in C order, few at a time."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study.storage.arrays import slabs

quick = settings(derandomize=True, deadline=None, max_examples=200)
SHAPES = st.lists(st.integers(0, 7), max_size=4).map(tuple)


@quick
@given(SHAPES, st.integers(1, 40))
def test_slabs_meet_every_value_once_in_c_order(shape, limit):
    numbers = np.arange(math.prod(shape)).reshape(shape)
    parts = [numbers[slab] for slab in slabs(shape, limit)]
    assert [value for part in parts for value in part.ravel().tolist()] == numbers.ravel().tolist()
    assert all(part.size <= limit for part in parts)

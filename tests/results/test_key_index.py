"""Cases found by their keys: the same as by looking at each."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study.results.table import KeyIndex

HEADS = ["0" * 16, "f" * 16, "00ff" * 4, "80000000000000a1"]
KEYS = st.sampled_from([head + tail for head in HEADS for tail in ("0000", "00a0", "ffff")] + [""])
FOREIGN = st.sampled_from(["no such key", HEADS[0] + "00001", HEADS[0], "zz" * 10])


@settings(derandomize=True, deadline=None, max_examples=150)
@given(st.lists(KEYS, max_size=30), st.lists(KEYS | FOREIGN, max_size=12))
def test_each_case_is_found_once_by_the_first_of_its_keys(keys, wanted):
    number, case = KeyIndex(np.array(keys, dtype="S20")).found(np.array(wanted, dtype=np.bytes_))
    expected = [(wanted.index(key), i) for i, key in enumerate(keys) if key and key in wanted]
    assert list(zip(number.tolist(), case.tolist(), strict=True)) == expected

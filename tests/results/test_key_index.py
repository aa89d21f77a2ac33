"""Cases found by their keys, in an index in parts: the same as by looking at each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evogt_study.results import key_index as key_index_module
from evogt_study.results.key_index import KeyIndex

quick = settings(derandomize=True, deadline=None, max_examples=150)
HEADS = ["0" * 16, "f" * 16, "00ff" * 4, "80000000000000a1"]
KEYS = st.sampled_from([head + tail for head in HEADS for tail in ("0000", "00a0", "ffff")] + [""])
FOREIGN = st.sampled_from(["no such key", HEADS[0] + "00001", HEADS[0], "zz" * 10])


@pytest.fixture(autouse=True)
def _in_parts(monkeypatch):
    monkeypatch.setattr(key_index_module, "SLAB", 4)
    monkeypatch.setattr(key_index_module, "_PIECE", 3)
    stretches = key_index_module.stretches
    monkeypatch.setattr(key_index_module, "stretches", lambda count, limit=4: stretches(count, limit))


def array(keys, width=20):
    return np.array(keys, dtype=f"S{width}")


@quick
@given(st.lists(KEYS, max_size=30), st.lists(KEYS | FOREIGN, max_size=12))
def test_each_case_is_found_once_by_the_first_of_its_keys(keys, wanted):
    number, case = KeyIndex(array(keys), None).found(np.array(wanted, dtype=np.bytes_))
    expected = [(wanted.index(key), i) for i, key in enumerate(keys) if key and key in wanted]
    assert list(zip(number.tolist(), case.tolist(), strict=True)) == expected


@quick
@given(st.lists(KEYS.filter(bool), min_size=1, max_size=30), st.randoms(use_true_random=False), st.integers(1, 7))
def test_of_equal_keys_the_first_that_is_met(keys, random, size):
    walk = random.sample(range(len(keys)), random.randint(0, len(keys)))
    blocks = (np.array(walk[start : start + size], dtype=np.int64) for start in range(0, len(walk), size))
    found = [case for block in KeyIndex(array(keys), None).firsts(blocks) for case in block.tolist()]
    met = {}
    for case in walk:
        met.setdefault(keys[case], case)
    assert found == list(met.values())


def test_many_keys(tmp_path):
    rng = np.random.default_rng(0)
    keys = array([rng.bytes(10).hex() for _ in range(600)])
    number, case = KeyIndex(keys, tmp_path / "r.nc").found(keys[::-1])
    assert case.tolist() == list(range(600))
    assert number.tolist() == list(range(600))[::-1]

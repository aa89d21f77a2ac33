"""Arrays out of core: they hold what is put in, leave nothing behind, and a full disk is reported."""

import mmap
import resource
from contextlib import contextmanager

import numpy as np
import pytest

from evogt_study.errors import ResultError
from evogt_study.storage import arrays as out_of_core
from evogt_study.storage.arrays import filled

MEBIBYTE = 2**20


def is_mapped(values):
    while isinstance(values.base, np.ndarray):
        values = values.base
    return isinstance(values.base, mmap.mmap)


@pytest.fixture(autouse=True)
def _a_mebibyte_in_memory(monkeypatch):
    monkeypatch.setattr(out_of_core, "IN_MEMORY", MEBIBYTE)


@pytest.mark.parametrize(
    ("dtype", "fill"), [("f8", np.nan), ("i4", -1), ("S20", b""), ("?", False), ("u4", 7), ("f8", 0.5)], ids=str
)
def test_a_large_array_is_an_anonymous_file(tmp_path, dtype, fill):
    values = filled((700, 2_001), dtype, fill, tmp_path / "r.nc")
    assert is_mapped(values)
    assert is_mapped(values.reshape(2_001, 700)[3:, ::2])
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(values, np.full((700, 2_001), fill, dtype=dtype))
    values[:] = values[::-1].copy()
    assert values.dtype == np.dtype(dtype)


def test_small_arrays_strings_and_those_without_a_place_are_in_memory(tmp_path):
    assert not is_mapped(filled((1000,), "f8", 0, tmp_path / "r.nc"))
    assert not is_mapped(filled((MEBIBYTE,), "f8", 0, None))
    assert not is_mapped(filled((MEBIBYTE,), object, "", tmp_path / "r.nc"))
    assert filled((0,), "f8", 0, tmp_path / "r.nc").shape == (0,)


@contextmanager
def no_file_larger_than(size):
    """As full as a disk can be without one of one's own."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_when_the_array_is_made_and_not_when_it_is_used(tmp_path):
    wanted = r"^cannot write beside .*r\.nc what is held of its runs meanwhile: File too large$"
    with no_file_larger_than(MEBIBYTE), pytest.raises(ResultError, match=wanted):
        filled((MEBIBYTE,), "f8", 0, tmp_path / "r.nc")
    assert list(tmp_path.iterdir()) == []

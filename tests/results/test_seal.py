"""The seal behind the end of a file: keys without HDF5, and bytes that are those that were written."""

import netCDF4
import numpy as np
import pytest
import xarray as xr

from evogt_study.results.seal import MAGIC, is_whole, seal, sealed_keys

KEYS = np.array([f"{number:020x}" for number in range(1000)], dtype=np.bytes_)


@pytest.fixture
def path(tmp_path):
    xr.Dataset({"error": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "a.nc")
    seal(tmp_path / "a.nc", [KEYS[:300], KEYS[300:]])
    return tmp_path / "a.nc"


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_a_sealed_file_is_read_as_ever(path, engine):
    np.testing.assert_array_equal(sealed_keys(path), KEYS)
    assert is_whole(path)
    with xr.open_dataset(path, engine=engine) as data:
        assert data.error.values.tolist() == [1, 2]


def test_whoever_changes_a_file_takes_its_seal_away(path):
    with netCDF4.Dataset(path, "a") as file:
        file["error"][0] = 3.0
    assert (sealed_keys(path), is_whole(path)) == (None, None)
    with netCDF4.Dataset(path) as file:
        assert file["error"][0] == 3.0


def test_every_flipped_byte_is_noticed(path):
    whole = path.read_bytes()
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert not is_whole(path), at
    for end in (0, 10, len(MAGIC), len(whole) - 1, len(whole) // 2):
        path.write_bytes(whole[:end])
        assert (sealed_keys(path), is_whole(path)) == (None, None)

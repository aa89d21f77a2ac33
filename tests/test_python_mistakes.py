"""Plain mistakes in Python get one line that says what to write instead."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from distributed import Client

import evogt_study as evs
from evogt_study.errors import InputError


def test_a_study_given_as_a_path():
    with pytest.raises(InputError, match=r"`study` must be a Study, got 'a\.toml'; use Study\.from_file\(PATH\)"):
        evs.run("a.toml")


def test_a_study_to_merge_into_given_as_a_path(tmp_path):
    with pytest.raises(InputError, match=r"`study` must be a Study, got 'all\.toml'"):
        evs.merge([tmp_path / "a.nc", tmp_path / "b.nc"], tmp_path / "c.nc", study="all.toml")


def test_a_client_that_is_none(small_study):
    with pytest.raises(InputError, match=r"`client` must be a distributed\.Client, got 3. Leave it out for"):
        evs.run(evs.Study.from_text(small_study), client=3)


def test_a_client_that_does_not_wait(small_study, client):
    async def run() -> None:
        async with Client(client.scheduler.address, security=client.security, asynchronous=True) as other:
            evs.run(evs.Study.from_text(small_study), client=other)

    with pytest.raises(InputError, match="`client` is asynchronous, but a study waits"):
        asyncio.run(run())


def test_a_dataset_in_place_of_a_variable():
    data = xr.Dataset({"error": ("seed", [1.0, 2.0])})
    with pytest.raises(InputError, match=r"`values` must be a DataArray, got a Dataset; use e\.g\. ds\.error"):
        evs.summary(data)


def test_missing_values_without_a_name():
    with pytest.warns(UserWarning, match="1 of 2 runs have no value; they are left out"):
        evs.summary(xr.DataArray([1.0, np.nan], dims="seed"), statistics=["mean"])


def _no_power_of_two():
    sample = evs.sample("point", "sobol", 3, x={"from": 0, "to": 1})
    return evs.Study(lambda x: x, name="three", designs=[sample])


MISSING = xr.Dataset({"error": ("seed", [1.0, np.nan])})


@pytest.mark.parametrize(
    "warned_of", [lambda: evs.summary(MISSING.error), lambda: MISSING.evogt.summary(), _no_power_of_two]
)
def test_a_warning_names_the_users_line(warned_of):
    with pytest.warns(UserWarning, match="left out|power of two") as caught:
        warned_of()
    assert {each.filename for each in caught} == {__file__}


def test_one_function_gives_all_warnings():
    package = Path(evs.__file__).parent
    assert [path.name for path in package.rglob("*.py") if "warnings.warn(" in path.read_text()] == ["errors.py"]


def identity(x):
    return x


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"axes": {"a": np.array(5)}}, "`a` must be a list of values, got array(5)"),
        ({"axes": 3}, "`axes` must be a mapping of names to values, got 3"),
        ({"constants": np.array([1])}, "`constants` must be a mapping of names to values"),
        ({"title": np.array(["x"])}, "`title` must be a string"),
        ({"exclude": 5}, "`exclude` must be a list of mappings"),
        ({"when": ["a"]}, "`when` must be a list of mappings"),
        ({"depends": 5}, "`depends` must be a list of names of files, got 5"),
        ({"designs": 3}, "`designs` must be made by evs.zip_axes, evs.sample or evs.table, got 3"),
    ],
)
def test_arguments_of_a_study_that_cannot_be(given, said):
    with pytest.raises(InputError) as caught:
        evs.Study(identity, **({"axes": {"x": [1.0, 2.0]}} | given))
    assert said in str(caught.value)
    with pytest.raises(InputError, match="`axes` must be a mapping"):
        evs.Study(identity, axes={"x": [1.0, 2.0]}).replace(axes=3)

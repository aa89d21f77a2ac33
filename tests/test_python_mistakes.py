"""Mistakes in Python get one line that says what to write instead: `mistakes.txt`.

In a message, ``...`` is any text.  After a wanted change, ``EVOGT_WRITE=1 pytest -n 0 tests/test_python_mistakes.py``
writes the messages again; read the difference.
"""

import asyncio
import datetime
import os
import re
from pathlib import Path

import drawable
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from conftest import write_computed_result
from distributed import Client

import evogt_study as evs
from evogt_study import pde
from evogt_study.analysis.performance import share
from evogt_study.analysis.tables import NumberFormat, make_table, render_table
from evogt_study.errors import EvogtError, InputError
from evogt_study.formulas import parse
from evogt_study.inference.intervals import Goal, Interval
from evogt_study.pde.baselines.finite_difference import solve_differences
from evogt_study.pde.baselines.finite_elements import p1_fem
from evogt_study.pde.dictionaries.base import Dictionary
from evogt_study.pde.domains import Box, Disk, Polygon, UnitCube
from evogt_study.pde.integrators import INTEGRATORS
from evogt_study.pde.methods.space_time_regression import derive_strong_form, space_time_regression
from evogt_study.pde.numerics import QuadratureRule, TimeGrid, TriangleRule

FILE = Path(__file__).with_name("mistakes.txt")
MISTAKES = dict(re.findall(r"^>>> (.*)\n((?!>>>|#).+)?", FILE.read_text(encoding="utf-8"), re.MULTILINE))


def identity(x):
    return x


def study(**options):
    return evs.Study(identity, **({"axes": {"x": [1.0, 2.0]}, "name": "own"} | options))


def constant(value):
    """A study of one run with a constant `x`."""
    return evs.Study(lambda seed, x: 1.0, axes={"seed": [0]}, constants={"x": value}, name="f")


def draw_number(a, rng, c=0):
    return rng.random()


def random_study(**options):
    return evs.Study(draw_number, **({"axes": {"a": [1, 2], "seed": [5]}} | options))


def flat(**options):
    """A problem in 2-D that is right without the options."""
    return pde.FormulaProblem(**({"dimension": 2, "initial": "x*(1-x)*y*(1-y)"} | options))


def line(**options):
    """A problem in 1-D that is right without the options."""
    return pde.FormulaProblem(**({"dimension": 1, "initial": "x*(1-x)"} | options))


GRID = TimeGrid(0.1, 10, ())


def solve(statement, **options):
    given = {"quadrature": 10, "validation": 10, "dt": 0.05, "final_time": 0.1}
    return pde.solve(statement(), Dictionary("legendre", 4), 0, **given | options)


def by_differences(statement, points=5):
    return solve_differences(statement(), points, GRID, INTEGRATORS["implicit_midpoint"]())


def by_elements(statement, unknowns, degree=None):
    return p1_fem(statement(), unknowns, GRID, degree)


def by_regression(statement, final_time=0.1, points=9, **options):
    features = Dictionary("transnet", 4, 3.0)
    return space_time_regression(derive_strong_form(statement, {}), features, 0, final_time, points=points, **options)


def draw(kind, **options):
    return drawable.draw(drawable.small_result(), kind, **options)


NAMES = (
    study, constant, random_study, flat, line, solve, by_differences, by_elements, by_regression, draw, parse, share,
    Box, Dictionary, Disk, Goal, Interval, NumberFormat, Polygon, QuadratureRule, TimeGrid, TriangleRule, UnitCube,
    make_table, render_table,
)  # fmt: skip


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Names of the expressions: a result of two runs, values on axes, and values of a sample."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("mistakes")
    points = rng.random((64, 3))
    parameters = {name: ("point", points[:, i]) for i, name in enumerate(("gamma", "k", "tau"))}
    values = xr.DataArray(
        rng.lognormal(size=(2, 8)), {"family": ["a", "b"], "seed": range(8)}, ("family", "seed"), name="error"
    )
    return {
        **{each.__name__: each for each in NAMES},
        **{
            "evs": evs,
            "pde": pde,
            "np": np,
            "pd": pd,
            "xr": xr,
            "nan": np.nan,
            "inf": np.inf,
            "datetime": datetime,
            "INTEGRATORS": INTEGRATORS,
        },
        "result": write_computed_result(study(), folder / "own.nc"),
        "data": xr.Dataset({"error": ("seed", [1.0, 2.0]), "rank": ("seed", [1, 2])}),
        "values": values,
        "grid": xr.concat([values, values], "N").assign_coords(N=[20, 40], N1=("N", [80, 160])),
        "sample": xr.DataArray(points.sum(axis=1), {"point": range(64), **parameters}, "point", name="error"),
    }


@pytest.mark.parametrize("expression", MISTAKES)
def test_a_mistake_gets_one_line(names, expression):
    with pytest.raises(EvogtError) as caught:
        eval(expression, names)
    found = f"{type(caught.value).__name__}: {caught.value}".replace(str(names["result"].parent), "FOLDER")
    if not re.fullmatch(re.escape(MISTAKES[expression]).replace(re.escape("..."), ".*"), found):
        assert "EVOGT_WRITE" in os.environ, found
        old, new = (f">>> {expression}\n" + f"{each}\n" * bool(each) for each in (MISTAKES[expression], found))
        FILE.write_text(FILE.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert len(found.splitlines()) == 1


def test_a_client_that_does_not_wait(client):
    async def run() -> None:
        async with Client(client.scheduler.address, security=client.security, asynchronous=True) as other:
            evs.run(study(), client=other)

    with pytest.raises(InputError, match="`client` is asynchronous, but a study waits"):
        asyncio.run(run())


def _no_power_of_two():
    sample = evs.sample("point", "sobol", 3, x={"from": 0, "to": 1})
    return evs.Study(lambda x: x, name="three", designs=[sample])


MISSING = xr.Dataset({"error": ("seed", [1.0, np.nan])})


@pytest.mark.parametrize(
    "warned_of", [lambda: evs.summary(MISSING.error), lambda: MISSING.evogt.summary(), _no_power_of_two]
)
def test_a_warning_names_the_line_of_the_user(warned_of):
    with pytest.warns(
        UserWarning, match="1 of 2 runs have no `error`. The statistics leave them out|power of two"
    ) as caught:
        warned_of()
    assert {each.filename for each in caught} == {__file__}


def test_one_function_gives_all_warnings():
    package = Path(evs.__file__).parent
    assert [path.name for path in package.rglob("*.py") if "warnings.warn(" in path.read_text()] == ["errors.py"]

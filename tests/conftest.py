"""Fixtures shared by the tests of the sweep: real processes, real files."""

import textwrap

import pytest

from evogt_study.sweep.batch import Batch, run_batch
from evogt_study.sweep.cluster import connected
from evogt_study.sweep.labelled import dataset, global_attributes
from evogt_study.sweep.pilot import choose
from evogt_study.sweep.plan import pilot_plan, study_plan
from evogt_study.sweep.store import PILOT, write_result
from evogt_study.sweep.study import Study
from evogt_study.sweep.table import Table

SMALL_STUDY = """
name = "small"

[problem]
dimension = 1
exact = "exp(-t)*sin(k*pi*x)"
diffusion = "1/10"

[axes]
dictionary = ["transnet", "gtransnet"]
k = [1, 2]
seed = { start = 0, count = 3 }

[constants]
N = 12
N1 = 24
gamma = 2
quadrature = 40
validation = 60
final_time = 0.1
dt = 0.01

[output]
times = 3
record = ["error_history", "energy_history", "norm_history", "coefficients", "field"]
grid = 9
"""


@pytest.fixture(scope="session")
def client():
    """A client of two worker processes, as a run without one starts."""
    with connected(None, 2) as client:
        yield client


@pytest.fixture
def small_study():
    """The text of a study of twelve runs that takes milliseconds."""
    return SMALL_STUDY


@pytest.fixture
def own_study(tmp_path):
    """A study of a function of one's own: called with the function's source and the rest of the study file."""

    def make(source, rest, name="own"):
        (tmp_path / "method.py").write_text(textwrap.dedent(source))
        text = f'name = "{name}"\nmethod = "method.py:method"\n{textwrap.dedent(rest)}'
        (tmp_path / f"{name}.toml").write_text(text)
        return Study.from_file(tmp_path / f"{name}.toml")

    return make


@pytest.fixture
def result_of():
    """Called with a study and a path: the result as `evogt run` writes it, computed here instead of on workers."""
    return written_result


def written_result(study, path):
    first, tables, choice = pilot_plan(study), {}, None
    if first is not None:
        tables[PILOT] = computed_table(first)
        choice = choose(study.pilot, tables[PILOT])
    tables["study"] = computed_table(study_plan(study, choice))
    whole = {phase: dataset(table, study) for phase, table in tables.items()}
    for phase, data in whole.items():
        data.attrs = {**global_attributes(study, phase), **data.attrs}
    if first is not None:
        whole["study"].attrs["pilot_group"] = PILOT
    write_result(path, whole["study"], whole.get(PILOT))
    return path


def computed_table(plan):
    table = Table(plan)
    table.add(run_batch(Batch.of(plan.spec, list(plan.cases()))))
    return table

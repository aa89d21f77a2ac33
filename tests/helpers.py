"""Small studies, and functions that compute, change and compare results; fixtures are in `conftest`."""

import os
import time
import tomllib
from pathlib import Path

import tomli_w
import xarray as xr

from evogt_study.results.netcdf import read_result, with_status_codes, write_result
from evogt_study.study.plan import plan_study
from evogt_study.study.study import Study
from evogt_study.workers.batch import Batch, compute_here

PARABOLA = 'def method(seed, gamma, target):\n    return {"error": abs(gamma - target) + 0.01 * (seed % 3)}\n'
"""A method for `PILOTED`, which chooses gamma = 1 for target 2 and gamma = 4 for target 5."""
PILOTED = """
    [axes]
    target = [2, 5]
    seed = [0, 1]
    [pilot]
    parameter = "gamma"
    seeds = { start = 100, count = 2 }
    by = ["target"]
    candidates = [1, 4, 6]
"""


def examples(number):
    """Number of examples of a property: a quarter, and at least 2; all if EVOGT_EXAMPLES is all."""
    return number if os.environ.get("EVOGT_EXAMPLES") == "all" else max(2, number // 4)


def read_table(test_file):
    """Return the table NAME.toml beside a test NAME.py."""
    return tomllib.loads(Path(test_file).with_suffix(".toml").read_text(encoding="utf-8"))


def study_text(problem, constants, axes, output=None, method="evolution", extra=""):
    """Return the text of a study without the entries that are None.  extra: text at its end."""
    sections = {"axes": axes, "constants": constants, "problem": problem, "output": output or {}}
    for name, entries in sections.items():
        sections[name] = {key: value for key, value in entries.items() if value is not None}
    return tomli_w.dumps({"name": "tiny", "method": method, **sections}) + extra


def pde_study(axes, constants, extra="", name="tiny", diffusion="1 + x/epsilon", **output):
    """Return a small study over axes.  Values are text, and a constant is left out if it is an axis."""
    constants = {each: value for each, value in constants.items() if each not in axes}
    problem = {"dimension": 1, "exact": '"exp(-t)*sin(pi*x)"', "diffusion": f'"{diffusion}"'}
    sections, lines = {"problem": problem, "axes": axes, "constants": constants, "output": output}, []
    for section, entries in sections.items():
        lines += [f"[{section}]", *(f"{each} = {value}" for each, value in entries.items() if value is not None)]
    return Study.from_text("\n".join([f'name = "{name}"', *lines, extra]))


def cases(text):
    """Return the cases of a study in the order of its axes."""
    return sorted(plan_study(Study.from_text(text))[-1].cases(), key=lambda case: case.index)


def keys(text):
    """Return the run keys of a study in the order of its axes."""
    return [case.key for case in cases(text)]


def computed(text, stages=None):
    """Compute all runs in this process; return their status, messages and variables."""
    records = compute_here(Batch.from_cases(Study.from_text(text).spec, cases(text)), stages)
    return records.status, records.messages, {stack.name: stack.values for stack in records.stacks}


def rewritten(path, change, phase="main"):
    """Change a phase of a result and write it with new checksums; return its path."""
    groups = read_result(path)
    change(groups[phase])
    write_result(path, groups)
    return path


def same_numbers(one, other):
    """Check that two results are identical except wall times and history; run keys may be coordinates."""
    both = (with_status_codes(data.reset_coords("run_key")) for data in (one, other))
    one, other = (data.drop_vars("run_seconds").drop_attrs(deep=False) for data in both)
    xr.testing.assert_identical(one, other)


def eventually(look, process=None, seconds=60):
    """Call `look` until it returns a true value, and return this value; fail if the process ends before."""
    end = time.monotonic() + seconds
    while True:
        try:
            found = look()
        except (OSError, ValueError):  # a file that is not there, or not whole yet
            found = None
        if found:
            return found
        assert process is None or process.poll() is None, f"ended with {process.returncode}"
        assert time.monotonic() < end
        time.sleep(0.05)


def read_study(path):
    """Return the main phase of a result file."""
    return read_result(path)["main"]

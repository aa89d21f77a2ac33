"""Errors in scripts and notebooks are one message, without frames of the package."""

import subprocess
import sys
from textwrap import dedent

import nbformat
import pytest
from nbclient import NotebookClient

SCRIPT = """
import os, signal, time
import evogt_study as evs

def function(x, seed):
    time.sleep(0.01)
    return 1.0 * x

def run(**options):
    return evs.run(evs.Study(function, axes={{"x": [1, 2], "seed": range(200)}}), workers=0, **options)

{last}
"""
INTERRUPT = "run(listener=lambda event: event.done > 3 and os.kill(os.getpid(), signal.SIGINT), {options})"


@pytest.fixture
def python(tmp_path):
    def call(last):
        (tmp_path / "script.py").write_text(SCRIPT.format(last=last))
        command = [sys.executable, "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        return done.stderr.splitlines()

    return call


def test_an_error_in_a_script_shows_the_lines_of_the_user(python):
    lines = python("run(worker=3)")
    assert lines[-1] == "evogt_study.errors.InputError: evs.run has no option `worker`. Did you mean `workers`?"
    assert [line.split(", ")[1] for line in lines if line.startswith("  File ")] == ["line 12", "line 10"]


@pytest.mark.parametrize(
    ("options", "place"),
    [("output='o.nc'", "o.nc.shards. The same"), pytest.param("", ".nc until this", marks=pytest.mark.long)],
)
def test_an_interrupt_of_a_script_is_one_line(python, options, place):
    (line,) = python(INTERRUPT.format(options=options))
    assert line.startswith("interrupted: finished runs are in ")
    assert place in line


@pytest.mark.long
def test_a_notebook_shows_one_message(tmp_path):
    cells = [
        SCRIPT.format(last=""),
        "run(worker=3)",
        INTERRUPT.format(options="output='o.nc'"),
        "print((evs.open('o.nc').run_status == 'ok').sum().item() > 0)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(dedent(cell)) for cell in cells])
    NotebookClient(notebook, allow_errors=True, timeout=60, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [[each for each in cell.outputs if each.output_type == "error"] for cell in notebook.cells]
    assert [each.traceback for each in shown[1]] == [
        ["InputError: evs.run has no option `worker`. Did you mean `workers`?"]
    ]
    (interrupt,) = shown[2]
    (line,) = interrupt.traceback
    assert line.startswith("interrupted: finished runs are in ")
    assert line.endswith("o.nc.shards. The same command computes the rest.")
    assert notebook.cells[3].outputs[0].text == "True\n"

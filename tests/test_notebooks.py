"""Studies in notebooks: tutorials are executed, and a study is interrupted as a person does it, in real kernels.

What is executed is kept, and the documentation shows it.
"""

import re
import sys
from pathlib import Path

import nbformat
import pytest
from helpers import eventually
from jupyter_client.manager import start_new_kernel

from evogt_study.results.finished import shard_folder
from evogt_study.results.index import list_shards

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "_extensions"))
from executed_notebooks import KEPT, SECONDS, TUTORIALS, execute  # of the documentation

pytestmark = pytest.mark.long

SLOW = """
import os, time
def method(seed):
    if not os.path.exists("go"):
        time.sleep(0.05)
    return {"error": float(seed)}
"""
STUDY = 'name = "own"\nmethod = "method.py:method"\n[axes]\nseed = { start = 0, count = 200 }'


@pytest.fixture(scope="module")
def notebooks():
    """Outputs of each tutorial's cells of code, by the cell."""
    execute(TUTORIALS)
    read = {path.stem: nbformat.read(KEPT / path.name, as_version=4) for path in TUTORIALS}
    return {
        name: {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
        for name, notebook in read.items()
    }


@pytest.fixture
def executed(notebooks):
    return notebooks["own_function"]


def outputs_of_type(outputs, kind):
    return [output.data[kind] for output in outputs if kind in output.get("data", {})]


def test_the_tutorial_runs_and_shows_progress_and_figures(executed):
    texts = [text for outputs in executed.values() for text in outputs_of_type(outputs, "text/plain")]
    progress = [text.lstrip("# ") for text in texts if re.match(r"#+ \d+/\d+ runs, ", text)]
    assert [re.sub(r"done in .*", "done", text) for text in progress] == [
        "42/42 runs, 0 failed, done",
        "80/80 runs, 42 reused, 0 failed, done",
        "60/60 runs, 0 failed, done",
    ]
    figures = {source: outputs for source, outputs in executed.items() if ".plot(" in source}
    assert len(figures) == 3
    for outputs in figures.values():
        assert len(outputs_of_type(outputs, "image/png")) == 1
        assert outputs_of_type(outputs, "image/svg+xml")[0].startswith("<?xml")
    errors = [output for outputs in executed.values() for output in outputs if output.get("name") == "stderr"]
    assert errors == []


def test_the_numbers_of_the_tutorial(executed):
    text = "\n".join(output.get("text", "") for outputs in executed.values() for output in outputs)
    assert "error 5.4e-04 at rank 48" in text
    printed = "\n".join(text for outputs in executed.values() for text in outputs_of_type(outputs, "text/plain"))
    assert re.search(r"^28 +1\.0\b", printed, re.MULTILINE)  # all trajectories are chaotic: the exponent is 0.906
    assert re.search(r"^10 +0\.0\b", printed, re.MULTILINE)


def printed_text(outputs_of_cells):
    assert all(output.get("name") != "stderr" for outputs in outputs_of_cells.values() for output in outputs)
    return "".join(output.get("text", "") for outputs in outputs_of_cells.values() for output in outputs)


def test_the_channel_is_solved(notebooks):
    text = printed_text(notebooks["own_pde"])
    error, reference_error = map(float, re.search(r"error (\S+), known to (\S+)\n", text).groups())
    assert 10 * reference_error < error < 1e-2
    assert "`exact` must vanish on the boundary, got a value of 1 there. State other" in text
    assert 'advection = ["1"]' in text


def test_a_dictionary_of_a_notebook_is_one_of_the_family(notebooks):
    text = printed_text(notebooks["own_dictionary"])
    medians = dict(re.findall(r"^(\w+) +median (\S+),", text, re.MULTILINE))
    assert list(medians) == ["cosines", "legendre", "transnet", "gtransnet"]
    assert all(0.0 < float(median) < 0.1 for median in medians.values())
    assert "`half` is without sample" in text


def test_the_notebook_on_statistics_has_the_ratios_of_the_paper(notebooks):
    text = printed_text(notebooks["statistics"])
    pattern = (
        r"^epsilon = \S+: gtransnet has the lowest geometric mean error of all 4; closest is transnet: ratio (\S+)"
    )
    assert re.findall(pattern, text, re.MULTILINE) == ["0.013", "0.0088", "0.025"]


@pytest.fixture
def kernel(tmp_path):
    """A kernel in a folder of its own: its manager, and a function that executes code and returns what came of it."""
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path), startup_timeout=SECONDS)

    def execute(code):
        printed = []

        def hook(message):
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        reply = client.execute_interactive(code, timeout=SECONDS, output_hook=hook)["content"]
        return reply["status"], "".join(printed), reply.get("ename", "")

    yield manager, client, execute
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_an_interrupted_study_in_a_notebook_keeps_its_finished_runs(kernel, tmp_path):
    manager, client, execute = kernel
    (tmp_path / "method.py").write_text(SLOW)
    path = tmp_path / "own.nc"
    assert execute(f"import evogt_study as evs\nstudy = evs.Study.from_text({STUDY!r})")[0] == "ok"
    asked = client.execute('evs.run(study, output="own.nc", workers=2)')
    eventually(lambda: list_shards(shard_folder(path)))
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=SECONDS)
    assert (reply["parent_header"]["msg_id"], reply["content"]["ename"]) == (asked, "StudyInterruptedError")
    assert not path.exists()

    count = 'with evs.open("own.nc") as ds:\n    print(int((ds.run_status == "ok").sum()), ds.sizes["seed"])'
    status, printed, _ = execute(count)
    done, planned = map(int, printed.split())
    assert (status, planned, 0 < done < 200) == ("ok", 200, True)
    (tmp_path / "go").touch()
    status, printed, _ = execute(
        'events = []\nds = evs.run(study, output="own.nc", workers=2, listener=events.append)\n'
        "print(events[0].reused, int((ds.run_status == 'ok').sum()))"
    )
    assert (status, printed) == ("ok", f"{done} 200\n")


def test_functions_of_cells_are_reused_if_the_code_they_use_is_equal(kernel):
    _, _, execute = kernel
    helper = "import math\ndef scaled(x):\n    return {} * math.floor(x)\n"
    function = "def shifted(x, seed):\n    return scaled(x) + seed\n"
    run = (
        "events = []\nstudy = evs.Study({}, axes={{'x': [1, 2], 'seed': range(3)}})\n"
        "ds = evs.run(study, output='cells.nc', listener=events.append)\n"
        "print(events[-1].reused, events[-1].done, int(ds.value.sum()))"
    )
    cells = [
        ("import evogt_study as evs\n" + helper.format(2) + function + run.format("shifted"), "0 6 24\n"),
        ("unused = 1\n# a comment\n" + helper.format(2) + run.format("shifted"), "6 0 24\n"),
        (helper.format(3) + run.format("shifted"), "0 6 33\n"),
        (helper.format(2) + run.format("shifted"), "6 0 24\n"),
        (run.format("lambda x, seed: x * seed").replace("cells.nc", "lambda.nc"), "0 6 9\n"),
    ]
    for cell, wanted in cells:
        status, printed, name = execute(cell)
        assert (status, name, wanted in printed, "CodeWarning" in printed) == ("ok", "", True, False), (cell, printed)

"""`evogt reproduce` as its user meets it: run in the repository, on those of the paper's studies that take no time."""

import csv
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster
from helpers import read_study

from evogt_study.workers.dask_executor import SETTINGS
from evogt_study.workers.runner import ONE_THREAD

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("evogt")  # as installed where the tests run
NAMES = (
    "p1_fem_oscillatory", "p1_fem_target", "refined_operator_2d", "space_time_evolution", "space_time_regression",
    "temporal_autonomous", "temporal_nonautonomous", "temporal_tolerance", "threshold",
)  # fmt: skip
STUDIES = [f"studies/paper/{name}.toml" for name in NAMES]
# runs: 3 + 3 + 4 + 9 + 9 + 4 + 4 + 2 + 80; numbers: of six files, and one of gamma_selected for each of two studies
RUNS, NUMBERS, PUBLISHED = 118, 60, 352
FILES = {"p1_fem": 6, "threshold": 24, "temporal_convergence": 14, "reference_tolerance": 2,
         "space_time_diagnostic": 12, "gamma_selected": 2}  # fmt: skip


@pytest.fixture(scope="module")
def client():
    """Of a cluster as a user starts one, whose address alone is enough for a command."""
    with (
        dask.config.set(SETTINGS),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", env=ONE_THREAD) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory, client):
    """How the command ended, and the folder it wrote to."""
    out = tmp_path_factory.mktemp("reproduction") / "made" / "here"
    command = [COMMAND, "reproduce", *STUDIES, "-o", out, "--scheduler", client.scheduler.address]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return done, out


@pytest.fixture
def evogt(evogt, monkeypatch):
    """Calls the command line in the repository."""
    monkeypatch.chdir(ROOT)
    return evogt


def entries(folder):
    with (folder / "report.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- the reproduction itself ------------------------------------------------------------------------------------------


def test_the_command_succeeds_and_counts_runs_and_numbers(reproduced):
    done, out = reproduced
    assert done.returncode == 0, done.stderr
    assert set(os.listdir(out)) == {f"{name}.nc" for name in NAMES} | {"report.md", "report.csv"}
    assert sum(read_study(out / f"{name}.nc").run_key.size for name in NAMES) == RUNS
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    assert f"{RUNS} runs, 0 not ok; {NUMBERS} published numbers: " in done.stdout
    assert f"{PUBLISHED - NUMBERS} published numbers belong to other studies\n" in done.stdout
    assert "unexplained" not in done.stdout
    for suffix in ("md", "csv"):
        assert f"{out}/report.{suffix}\n" in done.stdout
    for name in NAMES:
        assert f"{name}: " in done.stderr  # progress


def test_the_table_of_entries_is_complete(reproduced):
    _, out = reproduced
    rows = entries(out)
    assert len(rows) == NUMBERS
    assert Counter(row["file"] for row in rows) == FILES
    assert all(row["n_ok"] == row["n_planned"] for row in rows)
    verdicts = Counter(row["verdict"] for row in rows if row["measure"] == "digits")
    assert set(verdicts) <= {"agrees in all printed digits", "within one unit of the last digit", "differs"}
    differing = [row for row in rows if row["verdict"] == "differs"]
    assert [row["labels"] for row in differing] == ["k=8; method=space_time_regression; variable=error; statistic=mean"]
    assert all("misprint" in row["known"] for row in differing)
    assert verdicts["within one unit of the last digit"] <= 2
    assert verdicts["agrees in all printed digits"] >= 50


def test_the_same_command_computes_nothing_again(reproduced, evogt, no_workers, tmp_path):
    first, out = reproduced
    shutil.copytree(out, tmp_path / "copy")
    code, printed, err = evogt("reproduce", *STUDIES, "-o", tmp_path / "copy")
    assert code == 0
    assert err.count("all reused") == len(NAMES) == len(err.splitlines())
    assert printed.replace(str(tmp_path / "copy"), str(out)) == first.stdout
    assert (tmp_path / "copy" / "report.csv").read_bytes() == (out / "report.csv").read_bytes()


# --- numbers that do not come out -------------------------------------------------------------------------------------


@pytest.fixture
def judge_changed_numbers(reproduced, evogt, tmp_path, no_workers):
    """Changes a text in a copy of a published file, and judges the results again."""

    def judge(study, name, old, new):
        shutil.copytree(ROOT / "data" / "published", tmp_path / "published", dirs_exist_ok=True)
        shutil.copytree(reproduced[1], tmp_path / "out", dirs_exist_ok=True)
        path = tmp_path / "published" / f"{name}.csv"
        before = path.read_text(encoding="utf-8")
        assert before.count(old) == 1
        path.write_text(before.replace(old, new), encoding="utf-8")
        options = ("-o", tmp_path / "out", "--published", tmp_path / "published")
        code, out, err = evogt("reproduce", "-q", f"studies/paper/{study}.toml", *options)
        assert err == ""
        return code, out, [row for row in entries(tmp_path / "out") if row["verdict"] == "differs" and not row["known"]]

    return judge


@pytest.mark.parametrize(
    ("study", "name", "old", "new", "labels"),
    [
        ("threshold", "threshold", "1e-12,transnet,error,mean,4.53", "1e-12,transnet,error,mean,4.83",
         "tau=1e-12; dictionary=transnet"),
        ("p1_fem_oscillatory", "p1_fem", "6.70e-2", "6.30e-2", "epsilon=0.2; problem=oscillatory_1d; dofs=60"),
        ("temporal_autonomous", "temporal_convergence", ",5.25e-4", ",5.25e-5", "dt=1e-2; problem=autonomous"),
    ],
)  # fmt: skip
def test_one_digit_that_differs_is_named_and_exit_code_one(judge_changed_numbers, study, name, old, new, labels):
    code, out, differing = judge_changed_numbers(study, name, old, new)
    assert code == 1
    assert len(differing) == 1
    assert differing[0]["file"] == name
    assert differing[0]["labels"].startswith(labels)
    assert "1 differs (unexplained)" in out
    assert out.count("  differs  ") == 1


# --- studies without published numbers, and mistakes ------------------------------------------------------------------


def test_a_study_that_no_number_is_printed_of(client, evogt, tmp_path):
    (tmp_path / "own.py").write_text("def method(seed):\n    return {'error': float(seed)}\n")
    (tmp_path / "own.toml").write_text('name = "own"\nmethod = "own.py:method"\n[axes]\nseed = [0, 1]\n')
    code, out, _ = evogt(
        "reproduce", "-q", tmp_path, "-o", tmp_path / "out", "--scheduler", client.scheduler.address
    )  # fmt: skip
    assert code == 0
    assert "2 runs, 0 not ok; no published numbers" in out
    assert f"{PUBLISHED} published numbers belong to other studies" in out
    assert entries(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["--published", "nowhere"], ["cannot read the published numbers nowhere/", "No such file or directory"]),
        (["-o", "README.md"], ["cannot write README.md/report.md", "another output file"]),
        ([STUDIES[0]], ["`STUDIES` must have different names", "'p1_fem_oscillatory' twice"]),
        (["studies/paper"], ["`STUDIES` must have different names", "'p1_fem_oscillatory' twice"]),
        (["studies/gone.toml"], ["studies/gone.toml"]),
        (["README.md"], ["README.md must be TOML"]),
    ],
)
def test_a_mistake_costs_one_line_and_exit_code_two(evogt, no_workers, arguments, fragments):
    before = sorted(os.listdir(ROOT))
    place = [] if "-o" in arguments else ["-o", "not-made"]
    code, out, err = evogt("reproduce", STUDIES[0], *place, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("evogt: ")
    assert len(err.splitlines()) == 1
    for fragment in fragments:
        assert fragment in err
    assert sorted(os.listdir(ROOT)) == before


def test_outside_of_the_repository(evogt, no_workers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = evogt("reproduce")
    assert (code, out) == (2, "")
    assert "studies/paper" in err
    assert len(err.splitlines()) == 1
    assert os.listdir(tmp_path) == []

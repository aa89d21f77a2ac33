"""The recipe of the documentation for workers in jobs of a batch system, with an sbatch that runs them here at once."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from helpers import eventually, read_study

import evogt_study as evs

pytestmark = pytest.mark.long
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
PROGRAMS = {
    "sbatch": 'cd "$JOBS" && cp "$1" job.sh\nsetsid bash job.sh > out 2>&1 < /dev/null &\n'
    'echo $! >> pids\necho "Submitted batch job $!"',
    "scancel": 'kill -- "-$1"',
}


def test_the_recipe_for_jobs_computes_a_study_and_cancels_them(small_study, tmp_path):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for name, text in PROGRAMS.items():
        (jobs / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (jobs / name).chmod(stat.S_IRWXU)
    settings = {"CORES": "1", "MEMORY": "1GiB", "INTERFACE": "lo", "SHARED_TEMP_DIRECTORY": str(jobs)}
    environment = os.environ | {f"DASK_JOBQUEUE__SLURM__{name}": value for name, value in settings.items()}
    environment |= {"PATH": f"{jobs}{os.pathsep}{os.environ['PATH']}", "JOBS": str(jobs)}
    (tmp_path / "STUDY.toml").write_text(small_study)
    recipe = next(each for each in PAGE.read_text().split("```python\n") if "SLURMCluster(" in each).split("```")[0]
    (tmp_path / "recipe.py").write_text(recipe.replace("maximum=40", "maximum=1"))
    done = subprocess.run(
        [sys.executable, "recipe.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "--tls-cert" in (jobs / "job.sh").read_text()  # others cannot use the scheduler
    expected = evs.run(evs.Study.from_text(small_study), workers=1)
    np.testing.assert_array_equal(read_study(tmp_path / "FILE.nc").error, expected.error)
    numbers = [int(number) for number in (jobs / "pids").read_text().split()]
    eventually(lambda: not any(map(psutil.pid_exists, numbers)))

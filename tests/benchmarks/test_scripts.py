"""Each benchmark script runs, at a size that takes seconds; no time is asserted.

python -m pytest -q -o addopts= --benchmark-disable tests/benchmarks
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = {
    "alternatives.py": ["--seeds", "1"],
    "arrays.py": ["large", "trajectories", "--scale", "0.001"],
    "certificates.py": ["oscillatory_1d", "--repeat", "1"],
    "epsilon.py": ["--values", "3", "--seeds", "1", "--features", "10"],
    "exponents.py": ["{folder}/exponents.png", "--small", "--runs", "20", "40"],
    "kernels.py": ["--small", "--repeats", "1"],
    "many_workers.py": ["--workers", "2", "--seconds", "0.5"],
    "planning.py": ["50"],
    "open_problems.py": ["--features", "12", "--repeat", "1"],
    "reproduction.py": ["temporal_autonomous", "p1_fem_target"],
    "sweep.py": ["200"],
    "scaling.py": ["studies/paper/space_time_evolution.toml", "--workers", "1"],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_script(script, tmp_path):
    command = [sys.executable, str(HERE / script), *(each.format(folder=tmp_path) for each in SCRIPTS[script])]
    ended = subprocess.run(command, cwd=HERE.parents[1], env=os.environ, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout

"""Each benchmark script runs, at a size that takes seconds; no time is asserted.

python -m pytest -q -o addopts= tests/benchmarks
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = {
    "arrays.py": ["large", "trajectories", "--scale", "0.001"],
    "many_workers.py": ["--workers", "2", "--seconds", "0.5"],
    "reproduction.py": [f"studies/paper/{name}.toml" for name in ("temporal_autonomous", "p1_fem_target")],
    "sweep.py": ["200"],
    "scaling.py": ["studies/paper/space_time_evolution.toml", "--workers", "1"],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_script(script):
    command = [sys.executable, str(HERE / script), *SCRIPTS[script]]
    ended = subprocess.run(command, cwd=HERE.parents[1], env=os.environ, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout

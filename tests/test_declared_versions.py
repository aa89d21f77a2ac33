"""The lowest versions that pyproject.toml declares can be installed together, and run the first study."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import evogt_study as evs

ROOT = Path(__file__).parents[1]
VERSIONS = "import json, sys; from importlib.metadata import version; print(json.dumps([*map(version, sys.argv[1:])]))"


def lower_bounds():
    """The lower bound of each dependency, by its name."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found = {}
    for requirement in map(Requirement, declared):
        (bound,) = (each.version for each in requirement.specifier if each.operator == ">=")
        found[requirement.name] = bound
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="wheels of the lowest versions are for Python 3.11")
def test_the_lowest_versions_run_the_first_study(tmp_path):
    bounds = lower_bounds()
    (tmp_path / "lowest.txt").write_text("".join(f"{name}=={bound}\n" for name, bound in bounds.items()))
    source = tmp_path / "source"  # a build leaves folders where it works
    shutil.copytree(ROOT / "evogt_study", source / "evogt_study", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    python, evogt = tmp_path / "venv/bin/python", tmp_path / "venv/bin/evogt"

    def call(*command):
        done = subprocess.run([*map(str, command)], cwd=tmp_path, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call(sys.executable, "-m", "venv", tmp_path / "venv")
    call(python, "-m", "pip", "install", "-q", "-c", "lowest.txt", source)
    installed = json.loads(call(python, "-c", VERSIONS, *bounds))
    assert [*map(Version, installed)] == [*map(Version, bounds.values())]
    call(evogt, "run", ROOT / "studies/examples/first_study.toml", "-o", "first.nc", "--workers", "1", "-q")
    for command in ("summary", "verify", "plot", "report", "status"):
        call(evogt, command, "first.nc")
    with evs.open(tmp_path / "first.nc") as data:
        mean = evs.summary(data["error"], over="seed")["mean"]
        assert float(mean.sel(dictionary="gtransnet", N=40)) == pytest.approx(2.555e-5, rel=1e-3)

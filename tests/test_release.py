"""What is released: an sdist and a wheel that work outside of the tree, and versions that say the same everywhere.

To build takes a recent setuptools, which the slow test gets from a package index.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import jinja2
import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ON_CONDA = {"matplotlib": "matplotlib-base", "netCDF4": "netcdf4", "isal": "python-isal", "xxhash": "python-xxhash"}


def test_the_recipe_renders_and_has_the_requirements_of_the_package():
    text = jinja2.Template((ROOT / ".conda/meta.yaml").read_text(), undefined=jinja2.StrictUndefined)
    recipe = yaml.safe_load(text.render(PYTHON="python"))
    asked = [Requirement(each) for each in PROJECT["dependencies"]]
    wanted = {f"{ON_CONDA.get(each.name, each.name)} {each.specifier}" for each in asked}
    assert set(recipe["requirements"]["run"]) == wanted | {f"python {PROJECT['requires-python']}"}
    assert recipe["package"] == {"name": PROJECT["name"], "version": PROJECT["version"]}
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["entry_points"] == scripts


def test_the_citation_has_the_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])


@pytest.mark.slow
def test_sdist_and_wheel_work_outside_of_the_tree(tmp_path):
    source = tmp_path / "source"
    left = shutil.ignore_patterns(".venv", ".git", "*.egg-info", "build", "dist", "results", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, source, ignore=lambda folder, names: left(folder, names) if Path(folder) == ROOT else [])

    def call(*command, folder, first="installed"):
        place = {**os.environ, "PYTHONPATH": str(tmp_path / first)}
        done = subprocess.run([sys.executable, *command], cwd=folder, env=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    build = "import setuptools.build_meta as b, sys; place = sys.argv[1]; b.build_sdist(place); b.build_wheel(place)"
    call("-m", "pip", "install", "-q", "--target", str(tmp_path / "tools"), "setuptools>=77", folder=tmp_path)
    call("-c", build, str(tmp_path), folder=source, first="tools")
    (sdist,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        assert "evogt_study/py.typed" in names
        assert any(name.startswith("evogt_study/publishing/") and name.endswith(".j2") for name in names)
        assert not [name for name in names if not re.match(r"evogt_study[/-]", name)]
        packed.extractall(tmp_path / "installed")
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (folder,) = (tmp_path / "unpacked").iterdir()
    shutil.rmtree(folder / "evogt_study")
    where = call("-c", "import evogt_study; print(evogt_study.__file__)", folder=folder)
    assert Path(where.strip()).is_relative_to(tmp_path / "installed")
    tests = ("tests/study/test_publication.py", "tests/test_release.py", "tests/operations/test_trial.py")
    assert " passed" in call("-m", "pytest", "-q", "-n", "0", *tests, folder=folder)

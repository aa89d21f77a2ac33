"""Methods of an installed package, by module and by entry point; pip installs one for these tests."""

import json
import os
import subprocess
import sys
import zipfile

import pytest
from helpers import read_table

from evogt_study.errors import StudyError
from evogt_study.methods.code import find_named_code
from evogt_study.study.study import Study

FILES = read_table(__file__)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which pip has installed the package."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = folder / "toy_walks-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in FILES.items():
            file.writestr(name, text)
        file.writestr("toy_walks-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in FILES))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", folder / "site", wheel]
    subprocess.run(pip, check=True, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    return folder / "site"


def study(method):
    return f'name = "walks"\nmethod = "{method}"\n[axes]\nseed = [0, 1]\nlength = [3, 4]\n'


@pytest.mark.long
def test_an_installed_method_is_run_by_either_name(site, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(site)}

    def evogt(*arguments):
        command = [sys.executable, "-m", "evogt_study", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    (tmp_path / "walks.toml").write_text(study("toy_walks.walk:walk"))
    first = evogt("run", "walks.toml", "-q", "--workers", "1", "-o", "walks.nc")
    assert (first.returncode, first.stdout) == (0, "walks.nc: 4 runs, 4 ok\n"), first.stderr
    (tmp_path / "walks.toml").write_text(study("toy_walk"))
    status = evogt("status", "walks.toml", "-o", "walks.nc")
    assert "walks.nc: 4 runs, 4 ok" in status.stdout
    assert evogt("verify", "walks.nc").returncode == 0
    again = evogt("verify", "walks.nc", "--rerun", "3", "--code", "toy_walks.walk")
    assert (again.returncode, again.stdout.count("equal bit for bit")) == (0, 3)
    refused = evogt("verify", "walks.nc", "--rerun", "3")
    assert refused.returncode == 2
    assert "only a module that you name is imported. Use --code toy_walks.walk" in refused.stderr
    assert "toy_walks" not in evogt("summary", "walks.nc", "--variable", "end").stderr


def test_its_content_is_that_of_the_function(site, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(site)
    code = find_named_code("toy_walk", tmp_path)
    assert (code.module, code.attribute, [name for name, _ in code.files]) == (
        "toy_walks.walk", "walk", ["", "toy_walks/__init__.py", "toy_walks/steps.py"]
    )  # fmt: skip
    assert json.loads(Study.from_text(study("toy_walk")).spec.declaration)["codes"].keys() == {"toy_walk"}
    path = site / "toy_walks" / "walk.py"
    for old, new, same in (("return 0", "return 1", True), ("sum(", "max(", False)):
        path.write_text(FILES["toy_walks/walk.py"].replace(old, new))
        assert (find_named_code("toy_walk", tmp_path).content == code.content) is same
    path.write_text(FILES["toy_walks/walk.py"])


def test_a_package_under_development_is_imported_anew(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "toy_growing"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").write_text("from toy_growing.other import A\ndef f(seed):\n    return A * seed\n")
    for factor in (2, 30):
        (package / "other.py").write_text(f"A = {factor}\n")
        code = find_named_code("toy_growing.part:f", tmp_path)
        assert code.load()(1) == factor
    (package / "part.py").write_text("def f(seed):\n    return -seed\n")
    with pytest.raises(StudyError, match="toy_growing.part differs between a worker and the client"):
        code.load()

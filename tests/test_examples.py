"""Every example runs, and gives the number that is written here."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import evogt_study as evs

ROOT = Path(__file__).parents[1]


def study(name):
    return evs.Study.from_file(ROOT / "studies" / "examples" / f"{name}.toml")


def test_first_study(client):
    data = evs.run(study("first_study"), client=client)
    mean = evs.summary(data.error, over="seed")["mean"]
    assert float(mean.sel(dictionary="gtransnet", N=40)) == pytest.approx(2.555e-5, rel=1e-3)
    assert (mean.sel(dictionary="gtransnet") < mean.sel(dictionary="transnet")).all()
    assert (mean.diff("N") < 0).all()


OPEN = {"advection_layer": 1e-2, "fisher_kpp": 5e-4, "heat_l_shape": 5e-2, "periodic_transport": 3e-3}
"""Bounds of the mean errors of gtransnet, with all features."""


@pytest.mark.slow
@pytest.mark.parametrize("name", OPEN)
def test_open_problems(name, client):
    data = evs.run(study(name), client=client)
    assert (data.status == 1).all()
    data = data.sel(dictionary="gtransnet") if "dictionary" in data.dims else data
    mean = data.error.mean("seed")
    assert (mean.isel(N=-1) < OPEN[name]).all()
    assert (mean.isel(N=-1) < mean.isel(N=0)).all()


@pytest.mark.slow
def test_anisotropic_diffusion(client):
    data = evs.run(study("anisotropic_diffusion"), client=client)
    mean = data.error.mean("seed").isel(N=-1)
    assert float(mean.sel(dictionary="sine")) < 1e-6
    assert float(mean.sel(dictionary="legendre")) < 1e-3
    assert (mean.sel(dictionary=["transnet", "gtransnet", "gaussian_rf", "uniform_elm"]) > 0.3).all()  # as it is


def test_own_method(client):
    data = evs.run(study("own_method"), client=client)
    mean = evs.summary(data.error, over="seed")["mean"]
    assert float(mean.sel(points=10000, antithetic=False)) == pytest.approx(3.932e-3, rel=1e-3)
    assert data.running_estimate.dims == ("points", "antithetic", "seed", "checkpoint")


def script(name, tmp_path):
    """What an example script prints; its picture is made."""
    picture = tmp_path / f"{name}.png"
    command = [sys.executable, str(ROOT / "studies" / "examples" / f"{name}.py"), str(picture)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert (ROOT / "studies" / "examples" / f"{name}.png").exists()
    return done.stdout


def test_which_gamma(tmp_path):
    transnet, gtransnet = script("which_gamma", tmp_path).splitlines()
    assert transnet == "transnet: gamma = 4, mean error 2.20e-04 over 10 seeds"
    assert gtransnet.startswith("gtransnet: gamma = 8, mean error 2.17e-05")


def test_how_many_seeds(tmp_path):
    printed = script("how_many_seeds", tmp_path)
    shown = next(block for block in re.findall(r"```\n(.*?)```", (ROOT / "studies/README.md").read_text(), re.DOTALL))
    assert [line for line in printed.splitlines() if ", transnet" in line] == shown.splitlines()


def code_blocks(file, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(), re.DOTALL)


def test_the_readmes_study_is_the_first_study():
    shown = tomllib.loads(code_blocks("README.md", "toml")[0])
    stated = tomllib.loads((ROOT / "studies" / "examples" / "first_study.toml").read_text())
    assert {key: stated[key] for key in shown} == shown


def test_the_readmes_python_runs(tmp_path):
    """As a script, as a reader would paste it."""
    script = tmp_path / "script.py"
    script.write_text(code_blocks("README.md", "python")[0])
    done = subprocess.run([sys.executable, str(script)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split()[1] == "48"
    assert done.stderr == ""


def test_the_readmes_questions_have_answers(capsys):
    code = (
        code_blocks("README.md", "python")[1].replace('"results/', '"data/results/').replace('"data/', f'"{ROOT}/data/')
    )
    names = {"evs": evs}
    exec(code, names)
    assert capsys.readouterr().out.endswith("order 2.000 in dt\n")
    assert names["gain"]["ratio_of_means"].values.round(1).tolist() == [125.0, 204.8, 55.2]
    assert names["order"]["place"].sel(dictionary="gtransnet").values.tolist() == [1.0, 1.0, 1.0]
    assert (names["low"]["q25_ci"].sel(bound="lower") < names["low"]["q25_ci"].sel(bound="upper")).all()
    assert names["pooled"]["n_ok"].values.tolist() == [20] * 4
    assert names["best"]["settled"].all()


def test_the_readmes_channel_is_solved(capsys):
    exec(code_blocks("README.md", "python")[2], {"evs": evs})
    error, reference_error, value = map(float, capsys.readouterr().out.split())
    assert 10 * reference_error < error < 1e-2
    assert 0.1 < value < 1.0


@pytest.mark.parametrize("file", ["README.md", "studies/README.md", "data/README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(file):
    text = (ROOT / file).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert ((ROOT / file).parent / target).exists(), target
    for name in re.findall(r"`(evogt_study/[\w/]+\.py)`", text):
        assert (ROOT / name).exists(), name

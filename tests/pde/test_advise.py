"""Advice on a study: the limiting cause, the change, and a prediction that holds."""

import pytest

from evogt_study.cli.main import main
from evogt_study.pde.advise import advise
from evogt_study.study.study import Study

STUDY = """
name = "advised"
[problem]
dimension = 1
exact = "cos(20*t)*sin(pi*x) + exp(-t)*sin(4*pi*x)/100"
diffusion = "1 + cos(2*pi*x)/2"
[axes]
{axis}
seed = [0, 1]
[constants]
dictionary = "transnet"
gamma = 6
quadrature = 120
validation = 200
final_time = 0.2
{constants}
"""


def text(axis, constants):
    return STUDY.format(axis=axis, constants=constants)


@pytest.mark.parametrize(
    ("constants", "changed"), [("N = 60\ndt = 0.01\ntau = 1e-14", "dt"), ("N = 40\ndt = 0.005\ntau = 1e-4", "tau")]
)
def test_what_limits_the_error(constants, changed):
    (found,) = advise(Study.from_text(text("", constants)), n_setups=3, check=True)
    assert set(found.change) == {changed}
    assert found.predicted < 0.5 * found.error
    assert found.predicted / 2.0 < found.measured < 2.0 * found.predicted


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "advised.toml"
    path.write_text(text("N = [8, 16, 24]", "dt = 0.005"))
    main(["advise", str(path), "--setups", "2", "--no-check"], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("N = ")).startswith("N = 8: error ")
    assert sum("predicted" in line for line in lines) == 2
    assert list(tmp_path.iterdir()) == [path]
    path.write_text(path.read_text().replace("[problem]", 'method = "p1_fem"\n[problem]', 1))
    with pytest.raises(SystemExit) as stopped:
        main(["advise", str(path)], standalone_mode=False)
    assert stopped.value.code == 2

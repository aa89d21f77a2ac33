"""The toolkit works from end to end if the PDE wing, the paper and SymPy cannot be imported, also on its workers."""

import os
import subprocess
import sys

import pytest

BLOCK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "sympy" or name.startswith(("evogt_study.pde", "evogt_study.paper")):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
"""
SCRIPT = """
import sys
import evogt_study as evs
from evogt_study.schema.variables import to_status

def lorentz(x, width=1.0, seed=0):
    "A peak with noise that depends on the seed."
    return {"height": width / (x**2 + width**2) + seed / 1000, "name": f"x{x}"}

if __name__ == "__main__":
    study = evs.Study(lorentz, axes={"x": [-1, 0, 1], "seed": range(4)})
    ds = evs.run(study, output="peak.nc")
    assert (to_status(ds.run_status) == 1).all()
    wider = evs.run(study.replace(axes={"width": [1.0, 2.0]}), output="peak.nc", workers=2)
    assert wider.height.sel(width=1.0, x=0, seed=2).item() == 1.002
    assert evs.summary(ds.height, over="seed")["mean"].shape == (3,)
    ds.evogt.plot("dependence").savefig("peak.png")
"""
COMMANDS = [
    ["run", "peak.toml", "--workers", "2"],
    ["run", "peak.toml", "-q"],
    ["run", "-n", "peak.toml"],
    ["try", "peak.toml"],
    ["status", "results/peak.nc"],
    ["summary", "results/peak.nc", "--variable", "height"],
    ["compare", "results/peak.nc", "x", "--variable", "height"],
    ["plot", "results/peak.nc", "dependence"],
    ["report", "results/peak.nc"],
    ["export", "results/peak.nc", "-o", "peak.csv"],
    ["try", "results/peak.nc", "x=0", "seed=1"],
    ["verify", "results/peak.nc"],
    ["--help"],
]
STUDY = """
name = "peak"
method = "peak.py:lorentz"
[axes]
x = [-1, 0, 1]
seed = { start = 0, count = 6 }
[constants]
width = 2.0
"""


@pytest.mark.long
def test_a_study_of_a_function_needs_no_wing(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    (tmp_path / "peak.py").write_text(SCRIPT)
    (tmp_path / "peak.toml").write_text(STUDY)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}

    def python(*arguments):
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    with pytest.raises(AssertionError, match=r"evogt_study.pde is blocked"):
        python("-c", "import evogt_study.pde")
    python("peak.py")
    printed = {" ".join(command): python("-m", "evogt_study", *command) for command in COMMANDS}
    assert "18 runs, 18 ok" in printed["run peak.toml --workers 2"]
    assert (tmp_path / "results" / "peak.html").read_text().count("data:image/svg+xml") > 0
    assert "advise" in printed["--help"]  # registered, though it cannot be imported

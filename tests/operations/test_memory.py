"""The command's memory does not grow with its study: real processes, measured by the kernel."""

import subprocess
import sys

import pytest

from evogt_study.results.netcdf import open_phases
from evogt_study.schema.variables import Status

METHOD = """
def method(i, j):
    return {"error": float(i), "values": ("n", [float(j)] * 40)}
"""
PEAK = """
import sys
from evogt_study.cli.main import main
main(sys.argv[1:], standalone_mode=False)
with open("/proc/self/status") as status:  # of this program alone, unlike what a parent is told
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""
SMALL, LARGE = 5_000, 60_000
GROWTH = 45_000_000
"""Bytes more for `LARGE`: parts and batches come to their full size.  Held in memory its runs take 90 MB and more."""


def peak(study, path):
    """Largest resident memory of the command, in bytes."""
    command = [sys.executable, "-c", PEAK, "run", "-q", "--workers", "2", study.file, "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return int(done.stdout.split()[-1]) * 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells the largest memory of a process")
def test_a_larger_study_takes_no_more_memory(own_study, tmp_path):
    small, large = (
        own_study(
            METHOD, f"[axes]\ni = {{ start = 0, count = {size // 10} }}\nj = {{ start = 0, count = 10 }}", f"n{size}"
        )
        for size in (SMALL, LARGE)
    )
    least = peak(small, tmp_path / "small.nc")
    first, again = (peak(large, tmp_path / "large.nc") for _ in range(2))
    with open_phases(tmp_path / "large.nc") as groups:
        assert (groups["main"]["run_status"].values == Status.ok).all()
    assert max(first, again) < least + GROWTH, (least, first, again)

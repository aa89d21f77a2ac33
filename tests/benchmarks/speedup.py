"""The reproduction of the paper by this package against the line-by-line transcription, one after the other.

    python tests/benchmarks/speedup.py [STUDIES]... [--repeat R] [--limit N]

Wall seconds of two commands, each from the start of its interpreter: `naive.py`, one process with
OPENBLAS_NUM_THREADS=2, and `python -m evogt_study reproduce -q --workers 2` into a temporary folder, cluster and report
included.  Both do the same STUDIES, by name; without any, all of studies/paper but allen_cahn_reference.  --repeat does
the pair R times.  --limit N is for a look at whether it works: the transcription does N cases of each phase, so that
the ratio means nothing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
NAIVE = Path(__file__).with_name("naive.py")
WORKERS = 2
NOT_COUNTED = "allen_cahn_reference"


def seconds(command, **environment):
    """Wall seconds of a command; it may say by exit code 1 that a number differs, which is printed."""
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False
    )
    elapsed = time.perf_counter() - started
    if done.returncode:
        print(done.stdout)
        print(f"exit code {done.returncode} of {' '.join(map(str, command[1:4]))}")
    return elapsed, done.returncode


def main():
    parser = argparse.ArgumentParser(description="Wall seconds of the transcription and of the package, side by side.")
    parser.add_argument("studies", nargs="*")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    every = sorted(path.stem for path in (ROOT / "studies" / "paper").glob("*.toml"))
    names = options.studies or [name for name in every if name != NOT_COUNTED]
    naive = [sys.executable, str(NAIVE), *names, *([] if options.limit is None else ["--limit", str(options.limit)])]
    files = [f"studies/paper/{name}.toml" for name in names]
    ratios, failed = [], False
    for _ in range(options.repeat):
        slow, slow_code = seconds(naive, OPENBLAS_NUM_THREADS="2")
        with tempfile.TemporaryDirectory() as folder:
            package = [sys.executable, "-m", "evogt_study", "reproduce", "-q", "--workers", str(WORKERS), "-o", folder]
            fast, fast_code = seconds([*package, *files])
        ratios.append(slow / fast)
        failed = failed or bool(slow_code or fast_code)
        print(f"transcription {slow:.1f} s, package {fast:.1f} s, ratio {slow / fast:.2f}", flush=True)
    if len(ratios) > 1:
        print(f"median ratio {np.median(ratios):.2f} of {len(ratios)}, from {min(ratios):.2f} to {max(ratios):.2f}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

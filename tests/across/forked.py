"""A process that has imported the package, and forks once for each command: many commands in little time."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import evogt_study

PROGRAM = """
import ctypes, importlib, json, os, signal, sys, traceback
from evogt_study.cli.main import main
for name in ("cli.run cli.results operations.run operations.merge publishing.publish pde.methods.evolution "
             "pde.methods.problem_method pde.problems.expressions pde.baselines.finite_elements").split():
    importlib.import_module(f"evogt_study.{name}")

for line in sys.stdin:
    request = json.loads(line)
    process = os.fork()
    if not process:
        signal.alarm(60)
        os.chdir(request["folder"])
        for number, name in ((0, os.devnull), (1, request["output"] + ".out"), (2, request["output"] + ".err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644), number)
        code, library = 99, ctypes.CDLL(None)
        if request["faults"]:
            library.faults_begin(request["folder"].encode(), *map(ctypes.c_long, request["faults"]))
        try:
            main(request["arguments"], prog_name="evogt")
        except SystemExit as stopped:
            code = stopped.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            with open(request["output"] + ".used", "w") as file:
                peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
                json.dump([int(peak) / 1024, library.faults_count() if request["faults"] else 0], file)
            os._exit(code)
    _, status, used = os.wait4(process, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime]), flush=True)
"""


class Ended(NamedTuple):
    """How a command ended: its exit code, seconds of the processor, MB, lines of output, and calls that wrote."""

    code: int
    seconds: float
    megabytes: float
    lines: list[str]
    calls: int


@contextmanager
def forking(output, library=None):
    """Yield a function of a folder and a command: how it ended.  output: a folder for its output.

    library: built from `faults.c`.  faults: number of a call, error, and last call, as there.
    """
    environment = os.environ | {"PYTHONPATH": str(Path(evogt_study.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
    environment |= {} if library is None else {"LD_PRELOAD": str(library)}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )

    def call(folder, *arguments, faults=None):
        request = {
            "folder": str(folder),
            "arguments": [*map(str, arguments)],
            "faults": faults,
            "output": str(output / "it"),
        }
        for each in output.glob("it.*"):
            each.unlink()
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        code, seconds = json.loads(process.stdout.readline())
        lines = [line for end in (".out", ".err") for line in (output / f"it{end}").read_text().splitlines()]
        used = output / "it.used"
        megabytes, calls = json.loads(used.read_text()) if used.exists() else (0.0, 0)
        return Ended(code, seconds, megabytes, lines, calls)

    with process:
        yield call
        process.stdin.close()

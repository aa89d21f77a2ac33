"""Submit arrays of tasks to a batch system: SLURM, PBS, SGE or LSF."""

from __future__ import annotations

import math
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evogt_study.errors import InputError, ResultError
from evogt_study.storage.atomic import check_result_place, make_folder
from evogt_study.storage.paths import jobs_folder
from evogt_study.study.resources import Needs

SUBMIT_SECONDS = 120
"""Seconds for an answer of the batch system.  The commands of SLURM ask a busy server again for up to a minute."""


_TASK_MEGABYTES = 500
"""Memory of a task beside its runs: itself, and interpreters that compute runs."""


@dataclass(frozen=True)
class BatchSystem:
    """Names and commands of a batch system.

    submit: command that reads a script.  mark: beginning of its lines in the script.  lines: those for an array.
    number: variable with the number of a task.  needs: directives for memory, time and queue.
    """

    submit: str
    mark: str
    lines: tuple[str, ...]
    number: str
    needs: tuple[str, str, str]


SYSTEMS: Mapping[str, BatchSystem] = {
    "slurm": BatchSystem(
        "sbatch",
        "#SBATCH",
        ("--job-name={name}", "--array=1-{tasks}", "--cpus-per-task={workers}", "--output={folder}/%A_%a.out"),
        "SLURM_ARRAY_TASK_ID",
        ("--mem={memory}M", "--time={minutes}", "--partition={queue}"),
    ),
    "pbs": BatchSystem(
        "qsub",
        "#PBS",
        ("-N {name}", "-J 1-{tasks}", "-l select=1:ncpus={workers}", "-j oe", "-o {folder}/"),
        "PBS_ARRAY_INDEX",
        ("-l mem={memory}mb", "-l walltime={hours}", "-q {queue}"),
    ),
    # parallel environments of SGE have names of the site's own: --directive requests more processors
    "sge": BatchSystem(
        "qsub",
        "#$",
        ("-N {name}", "-t 1-{tasks}", "-j y", "-o {folder}/"),
        "SGE_TASK_ID",
        ("-l h_vmem={memory}M", "-l h_rt={hours}", "-q {queue}"),
    ),
    "lsf": BatchSystem(
        "bsub",
        "#BSUB",
        ('-J "{name}[1-{tasks}]"', "-n {workers}", "-o {folder}/%J_%I.out"),
        "LSB_JOBINDEX",
        ("-M {memory}MB", "-W {minutes}", "-q {queue}"),
    ),
}


def describe_needs(system: str, needs: Needs, minutes: int, workers: int, *, retries: bool) -> list[str]:
    """Return the directives of a job whose `workers` run cases with these needs, for so many minutes.

    retries: a run may be tried again with twice the memory.
    """
    memory = math.ceil(needs.memory * (1 + retries) / 1e6) * workers + _TASK_MEGABYTES
    values = {
        "memory": memory,
        "minutes": minutes,
        "hours": f"{minutes // 60}:{minutes % 60:02}:00",
        "queue": needs.queue,
    }
    is_given = (needs.memory, needs.minutes, needs.queue)
    return [line.format(**values) for line, given in zip(SYSTEMS[system].needs, is_given, strict=True) if given]


def job_script(
    system: str,
    study: Sequence[str],
    result: Path,
    tasks: int,
    *,
    workers: int = 1,
    cores: int = 1,
    number_of_class: int = 0,
    directives: Sequence[str] = (),
) -> str:
    """Return the script of an array of `tasks` tasks that compute the study for `result`, in this working folder.

    study: the study file and its assignments.  cores: of each worker.  number_of_class: the class of needs of its runs,
    or 0.  directives: further lines for the batch system, such as "--time=4:00:00".  Raises InputError for an unknown
    system, or a directive of more than one line.
    """
    if system not in SYSTEMS:
        raise InputError(f"`--cluster` must be one of {', '.join(SYSTEMS)}, got {system!r}")
    known = SYSTEMS[system]
    for directive in directives:
        if not directive.strip() or not directive.isprintable():
            raise InputError(f"`--directive` must be one line for {system}, such as --time=4:00:00, got {directive!r}")
    folder = jobs_folder(result).resolve()
    for text in map(str, (*study, result, folder, Path.cwd(), sys.executable)):  # a line end would end its line
        if re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029]", text):
            raise InputError(f"paths and assignments in a job script must have no control characters, got {text!r}")
    name = "".join(letter if letter.isalnum() else "_" for letter in result.stem)
    values = {"name": name, "tasks": tasks, "workers": workers * cores, "folder": shlex.quote(str(folder))}
    command = [sys.executable, "-m", "evogt_study", "run", *study, "-o", str(result)]
    command += ["--workers", str(workers * cores)] if workers * cores > 1 else []
    task = f"{tasks}:{number_of_class}" if number_of_class else f"{tasks}"
    return "\n".join(
        [
            "#!/bin/sh",
            *(f"{known.mark} {line.format(**values)}" for line in known.lines),
            *(f"{known.mark} {directive}" for directive in directives),
            f"cd {shlex.quote(str(Path.cwd()))} || exit",
            f'exec {shlex.join(command)} --task "${known.number}/{task}"',  # exec: signals of the system reach it
            "",
        ]
    )


def make_jobs_folder(result: Path) -> None:
    """Make the folder of the jobs' output, without which batch systems do not start them.  Raises ResultError."""
    check_result_place(result)
    try:
        make_folder(jobs_folder(result))
    except OSError as error:
        raise ResultError(f"cannot write in {jobs_folder(result)}: {error.strerror}") from None


def submit_script(system: str, script: str) -> str:
    """Submit a script, and return the answer of the batch system.  Raises InputError if it refuses."""
    command = SYSTEMS[system].submit
    try:
        done = subprocess.run(  # noqa: S603  # a fixed name
            [command], input=script, capture_output=True, text=True, check=False, timeout=SUBMIT_SECONDS
        )
    except OSError as error:
        raise InputError(
            f"`--cluster {system}` must have {command} on this machine, got: {error.strerror}; --print shows the script"
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(f"`--cluster {system}`: {command} gave no answer in {SUBMIT_SECONDS} s; try again") from None
    if done.returncode:
        raise InputError(f"`--cluster {system}`: {command} refused the job: {done.stderr or done.stdout}")
    return done.stdout.strip()

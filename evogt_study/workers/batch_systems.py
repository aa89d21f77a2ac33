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
from evogt_study.schema.records import NO_NEEDS, Needs
from evogt_study.storage.atomic import check_result_place, make_folder
from evogt_study.storage.paths import jobs_folder

SUBMIT_SECONDS = 120
"""Seconds for an answer of the batch system.  The commands of SLURM ask a busy server again for up to a minute."""
_TASK_MEGABYTES, _START_MINUTES = 500, 2
"""Memory and time of a task beside its runs: itself, and interpreters that compute runs."""
_KEY = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class BatchSystem:
    """Names and commands of a batch system.

    submit: command that reads a script.  mark: beginning of its lines in the script.  lines: those for an array; a
    line without a value, such as memory, is left out.  number: variable with the number of a task.
    """

    submit: str
    mark: str
    lines: tuple[str, ...]
    number: str


SYSTEMS: Mapping[str, BatchSystem] = {
    "slurm": BatchSystem(
        "sbatch", "#SBATCH",
        ("--job-name={name}", "--array=1-{tasks}", "--cpus-per-task={cores}", "--output={folder}/%A_%a.out",
         "--mem={memory}M", "--time={minutes}", "--partition={queue}"),
        "SLURM_ARRAY_TASK_ID",
    ),
    "pbs": BatchSystem(
        "qsub", "#PBS",
        ("-N {name}", "-J 1-{tasks}", "-l select=1:ncpus={cores}", "-j oe", "-o {folder}/",
         "-l mem={memory}mb", "-l walltime={hours}", "-q {queue}"),
        "PBS_ARRAY_INDEX",
    ),
    # parallel environments of SGE have names of the site's own: --directive requests more processors
    "sge": BatchSystem(
        "qsub", "#$",
        ("-N {name}", "-t 1-{tasks}", "-j y", "-o {folder}/", "-l h_vmem={memory}M", "-l h_rt={hours}", "-q {queue}"),
        "SGE_TASK_ID",
    ),
    "lsf": BatchSystem(
        "bsub", "#BSUB",
        ('-J "{name}[1-{tasks}]"', "-n {cores}", "-o {folder}/%J_%I.out", "-M {memory}MB", "-W {minutes}",
         "-q {queue}"),
        "LSB_JOBINDEX",
    ),
}  # fmt: skip


def make_job_scripts(
    system: str,
    study: Sequence[str],
    result: Path,
    tasks: int,
    classes: Mapping[Needs, int],
    *,
    workers: int = 1,
    retries: bool = False,
    directives: Sequence[str] = (),
) -> list[str]:
    """Return a script for each class of needs: an array of `tasks` tasks that compute the study for `result`, here.

    study: the study file and its assignments.  classes: number of runs of each class; none: one script for all runs.
    retries: a run may be tried again with twice the memory.  directives: further lines for the batch system, such as
    "--time=4:00:00".  Raises InputError for an unknown system, or a directive of more than one line.
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
    scripts = []
    for number, (needs, n_runs) in enumerate((classes or {NO_NEEDS: tasks}).items(), 1):
        n_tasks, cores = min(tasks, n_runs), workers * max(1, needs.cores)
        minutes = needs.minutes and needs.minutes * math.ceil(n_runs / (n_tasks * workers)) + _START_MINUTES
        values = {
            "name": "".join(letter if letter.isalnum() else "_" for letter in result.stem),
            "tasks": n_tasks, "cores": cores, "folder": shlex.quote(str(folder)), "queue": needs.queue,
            "memory": needs.memory and needs.memory * (1 + retries) * workers + _TASK_MEGABYTES,
            "minutes": minutes, "hours": minutes and f"{minutes // 60}:{minutes % 60:02}:00",
        }  # fmt: skip
        own = [line.format(**values) for line in known.lines if all(values[key] for key in _KEY.findall(line))]
        command = [sys.executable, "-m", "evogt_study", "run", *study, "-o", str(result)]
        command += ["--workers", str(cores)] if cores > 1 else []
        task = f"{known.number}/{n_tasks}:{number}" if classes else f"{known.number}/{n_tasks}"
        lines = ["#!/bin/sh", *(f"{known.mark} {line}" for line in (*own, *directives))]
        lines.append(f"cd {shlex.quote(str(Path.cwd()))} || exit")
        lines.append(f'exec {shlex.join(command)} --task "${task}"\n')  # exec: signals of the system reach it
        scripts.append("\n".join(lines))
    return scripts


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

"""Submit arrays of tasks to a batch system, which may be SLURM, PBS, SGE or LSF."""

import math
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evogt_study.errors import InputError, ResultError
from evogt_study.schema.records import NO_NEEDS, Needs
from evogt_study.storage.files import check_result_place, jobs_folder, make_folder

SUBMIT_SECONDS = 120
"""Timeout of a submission, in s.  The commands of SLURM repeat a request to a busy server for up to a minute."""
_TASK_MEGABYTES, _START_MINUTES = 500, 2
"""Memory in MB, and start time in minutes, that a task and its runners need in addition to the runs."""
_KEY = re.compile(r"\{(\w+)\}")


class BatchSystem(NamedTuple):
    """Batch system, with its command for scripts, its directives and the environment variable of a task."""

    submit: str
    prefix: str
    directives: tuple[str, ...]
    task_variable: str


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
    # each site names its parallel environments of SGE: request more processors with --directive
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
    """Return a job script for each class of needs.  Each script runs an array of tasks in the current folder.

    `study` is the study file with its assignments.  `classes` has the number of runs of each class, or is empty.  With
    `retries`, a script requests twice the memory.  Raises InputError for an unknown system or an invalid directive.
    """
    if system not in SYSTEMS:
        raise InputError(f"`--cluster` must be one of {', '.join(SYSTEMS)}, got {system!r}")
    batch_system = SYSTEMS[system]
    for directive in directives:
        if not directive.strip() or not directive.isprintable():
            raise InputError(f"`--directive` must be one line for {system}, such as --time=4:00:00, got {directive!r}")
    folder = jobs_folder(result).resolve()
    for text in map(str, (*study, result, folder, Path.cwd(), sys.executable)):  # a line break would end the command
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
        # without the directives that have no value, such as memory
        known = [line for line in batch_system.directives if all(values[key] for key in _KEY.findall(line))]
        command = [sys.executable, "-m", "evogt_study", "run", *study, "-o", str(result)]
        command += ["--workers", str(cores)] if cores > 1 else []
        task = f"{batch_system.task_variable}/{n_tasks}{f':{number}' if classes else ''}"
        lines = ["#!/bin/sh", *(f"{batch_system.prefix} {line.format(**values)}" for line in known)]
        lines += [f"{batch_system.prefix} {line}" for line in directives]
        lines.append(f"cd {shlex.quote(str(Path.cwd()))} || exit")
        lines.append(f'exec {shlex.join(command)} --task "${task}"\n')  # exec passes on signals
        scripts.append("\n".join(lines))
    return scripts


def make_jobs_folder(result: Path) -> None:
    """Make the folder for the output of jobs.  Batch systems start no job without this folder.  Raises ResultError."""
    check_result_place(result)
    try:
        make_folder(jobs_folder(result))
    except OSError as error:
        raise ResultError(f"cannot write in {jobs_folder(result)}: {error.strerror}") from None


def submit_script(system: str, script: str) -> str:
    """Submit a script, and return the answer of the batch system.  Raises InputError if the system refuses the job."""
    command = SYSTEMS[system].submit
    try:
        process = subprocess.run(  # noqa: S603  # a fixed name
            [command], input=script, capture_output=True, text=True, check=False, timeout=SUBMIT_SECONDS
        )
    except OSError as error:
        raise InputError(
            f"`--cluster {system}` cannot start {command} here: {error.strerror}. Add --print to see the script."
        ) from None
    except subprocess.TimeoutExpired:
        raise InputError(f"`--cluster {system}`: {command} gave no answer in {SUBMIT_SECONDS} s. Try again.") from None
    if process.returncode:
        raise InputError(f"`--cluster {system}`: {command} refused the job: {process.stderr or process.stdout}")
    return process.stdout.strip()

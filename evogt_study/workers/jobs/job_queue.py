"""The queue of a batch system: which jobs it still has, what it says of them, and how long they may run."""

from __future__ import annotations

import getpass
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SYSTEMS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster"}
"""Batch systems, and what dask-jobqueue calls their clusters."""
LISTS: Mapping[str, tuple[str, ...]] = {
    "slurm": ("squeue", "-h", "-o", "%i %T %r", "-u"),
    "pbs": ("qstat", "-u"),
    "sge": ("qstat", "-u"),
    "lsf": ("bjobs", "-noheader", "-o", "jobid stat pend_reason", "-u"),
}
"""Commands that list the jobs of the user who is named after them, one a line that begins with the job's number."""
ANSWER_SECONDS = 30
"""Seconds in which a queue has to answer: busy ones take some."""


@dataclass(frozen=True)
class Queue:
    """The queue of the batch system `system`."""

    system: str

    def jobs(self) -> dict[str, str] | None:
        """State of each of this user's jobs in the queue, by its number; None where it does not answer."""
        try:
            done = subprocess.run(  # noqa: S603  # fixed words
                [*LISTS[self.system], getpass.getuser()],
                capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return None
        # LSF calls an empty queue an error
        if done.returncode and "No unfinished job" not in done.stderr:
            return None
        return {
            match[1]: " ".join(match[2].split())
            for line in done.stdout.splitlines()
            if (match := re.match(r"\s*(\d+)\S*\s*(.*)", line))
        }


def in_words(said: Iterable[str]) -> str:
    """Counted states of several jobs: "2 PENDING Resources, 1 RUNNING None"."""
    counts = Counter(said)
    return ", ".join(f"{count} {words}" for words, count in counts.most_common()) or "no jobs"


def wall_seconds(system: str, text: object) -> float | None:
    """Seconds of a wall time as the batch system reads it; None where that is not known.

    >>> wall_seconds("slurm", "1-12:00"), wall_seconds("slurm", "90"), wall_seconds("lsf", "1:30")
    (129600.0, 5400.0, 5400.0)
    >>> wall_seconds("pbs", "01:30:00"), wall_seconds("pbs", None)
    (5400.0, None)
    """
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", str(text))
    if not match:
        return None
    days, numbers = float(match[1] or 0), [float(number) for number in match.groups()[1:] if number is not None]
    if match[1] is not None:  # SLURM's days-hours:minutes:seconds
        numbers += [0.0] * (3 - len(numbers))
    elif len(numbers) == 1:
        numbers = [numbers[0], 0.0] if system in ("slurm", "lsf") else numbers  # which count in minutes
    elif system == "lsf":
        numbers = [*numbers[:2], 0.0]
    return days * 86_400.0 + sum(number * 60.0**power for power, number in enumerate(reversed(numbers)))

"""Paths of what belongs to a result; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evogt_study.storage.atomic import followed

DESCRIPTION, PROGRESS, CLAIMS = "study.json", "progress.json", "claims"
SHARDS, STORE = FOLDERS_OF_SHARDS = (".shards", ".store")
"""Suffixes of folders that hold runs: those of a study that is being run, and those that are kept."""


def default_result(name: str) -> Path:
    """Return the place of the result of a study of this name, unless it is said to be elsewhere."""
    return Path("results") / f"{name}.nc"


def shard_folder(result: Path) -> Path:
    """The folder beside a result file that holds its shards while a study runs."""
    # a link and what it leads to are one result, and have one folder
    result = followed(result)
    return result.with_name(result.name + SHARDS)


def store_folder(result: Path) -> Path:
    """The folder beside a result file that keeps finished runs which its study does not ask for now."""
    result = followed(result)
    return result.with_name(result.name + STORE)


def description(result: Path) -> Path:
    """Return the file in which the study of an unfinished result is written down, beside its shards."""
    return shard_folder(result) / DESCRIPTION


def progress_file(result: Path) -> Path:
    """Return the file in which the process that computes a result writes how far it has come, beside its shards."""
    return shard_folder(result) / PROGRESS


def claims_folder(result: Path) -> Path:
    """Return the folder of what array tasks claim, beside the shards: whoever removes those removes the claims."""
    return shard_folder(result) / CLAIMS


def jobs_folder(result: Path) -> Path:
    """Return the folder in which jobs of a batch system leave their output."""
    result = followed(result)
    return result.with_name(result.name + ".jobs")


def paths_of(given: str | Path | Iterable[str | Path]) -> list[Path]:
    """One path, or several, as a list: a string would be taken for a list of letters."""
    return [Path(given)] if isinstance(given, (str, Path)) else [Path(each) for each in given]

"""Return the paths of the files that belong to a result.  This module is fast to import."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evogt_study.storage.atomic import resolve_link

DESCRIPTION, PROGRESS, CLAIMS = "study.json", "progress.json", "claims"
SHARDS, STORE = FOLDERS_OF_SHARDS = (".shards", ".store")
"""Suffixes of the folder of shards, which an unfinished study has, and of the store."""


def default_result(name: str) -> Path:
    """Return the default path of the result of a study of this name."""
    return Path("results") / f"{name}.nc"


def _beside(result: Path, suffix: str) -> Path:
    """Return the path of a result with a suffix added.  For a link, the path is beside its target."""
    result = resolve_link(result)
    return result.with_name(result.name + suffix)


def shard_folder(result: Path) -> Path:
    """Return the folder beside a result file that holds its shards while a study runs."""
    return _beside(result, SHARDS)


def store_folder(result: Path) -> Path:
    """Return the folder beside a result file that keeps finished runs that are no longer part of the study."""
    return _beside(result, STORE)


def runs_folder(result: Path) -> Path:
    """Return the folder beside a result that holds the folders and checkpoints of its runs."""
    return _beside(result, ".runs")


def description_path(result: Path) -> Path:
    """Return the file that holds the study of an unfinished result, beside its shards."""
    return shard_folder(result) / DESCRIPTION


def progress_file(result: Path) -> Path:
    """Return the progress file of a running study, beside its shards."""
    return shard_folder(result) / PROGRESS


def claims_folder(result: Path) -> Path:
    """Return the folder of the claims of array tasks, which is removed with the shards."""
    return shard_folder(result) / CLAIMS


def jobs_folder(result: Path) -> Path:
    """Return the folder with the output of the jobs of a batch system."""
    return _beside(result, ".jobs")


def paths_of(given: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return one path or several paths as a list."""
    return [Path(given)] if isinstance(given, (str, Path)) else [Path(each) for each in given]

"""A deposit checked on its reader's machine: its files, its results, and a sample of their runs computed again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evogt_study.operations.verify import SAMPLE, Verification, verify
from evogt_study.publishing.bag import PAYLOAD, bag_findings


def verify_deposit(
    folder: str | Path, *, sample: int = SAMPLE, seed: int = 0, code: str | Path | None = None
) -> Iterator[Verification]:
    """Check the folder's manifests, then each result with `sample` of its runs: one outcome each, the folder's first.

    Where a file is not what was deposited nothing else is checked, and nothing of it is run.  code: as of `verify`;
    left out, the Python files of the deposit are run for a sample, if their content is what computed the result.

    Raises InputError for a folder that is no deposit, ResultError for a result that cannot be used here.
    """
    folder = Path(folder)
    damage = tuple(bag_findings(folder))
    results = sorted((folder / PAYLOAD / "results").glob("*.nc"))
    if not results and not damage:
        damage = (f"there is no result in {folder / PAYLOAD / 'results'}",)
    yield Verification(folder, {}, damage, (), "nothing else was checked" if damage else "")
    for path in () if damage else results:
        beside = folder / PAYLOAD / "studies" / path.stem
        yield verify(path, sample=sample, seed=seed, code=code, folder=beside)

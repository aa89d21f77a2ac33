"""The commands `evogt merge`, `concat`, `verify`, `replay` and `publish`, which read and write whole results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evogt_study.cli.display import format_counts, print_result, tell_unfinished
from evogt_study.cli.inputs import check_finished, code_option
from evogt_study.cli.main import SOME_FAILED
from evogt_study.errors import InputError
from evogt_study.text import tell, tell_lines

if TYPE_CHECKING:
    from evogt_study.operations.verify import Verification


@click.command()
@click.argument("files", metavar="A.nc B.nc ...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="New file for the joined result.")
@click.option(
    "--study",
    "study_file",
    metavar="STUDY.toml",
    type=click.Path(path_type=Path),
    help="Study that asks for everything.  [default: that of a file whose axes have all values]",
)
def merge(files: tuple[Path, ...], output: Path, study_file: Path | None) -> None:
    """Join results of one study that were computed apart, for example some seeds on each machine.

    The same run must have the same values everywhere, bit for bit; one that is ok is taken before one that is not.
    Exit code 1 where runs of the joined result are not ok; `evogt run STUDY.toml -o OUTPUT` computes those not run.
    """
    from evogt_study.operations.merge import merge as merged
    from evogt_study.results.reopened import study_as_recorded

    merged(files, output, study=None if study_file is None else study_as_recorded(study_file, files))
    for each in files:
        tell_unfinished(each)
    print_result(output)


@click.command()
@click.argument("files", metavar="LABEL=A.nc LABEL=B.nc ...", nargs=-1, required=True)
@click.option("--dim", default="problem", show_default=True, help="Name of the new dimension.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="New file for the joined result.")
def concat(files: tuple[str, ...], dim: str, output: Path) -> None:
    """Join results of different studies along a new dimension, on which each has its LABEL: a word, or a number.

    Constants that differ become coordinates along it; what cannot be joined is named.  `summary`, `plot`, `report` and
    the other commands that read results read the file; nothing can be run for it, since it is that of no one study.
    """
    from evogt_study.operations.concat import concat as joined

    results = _labelled(files)
    check_finished(*results.values())
    joined(_with_numbers(results), dim, output=output)
    print_result(output)


def _labelled(files: tuple[str, ...]) -> dict[str, Path]:
    """Return the files by label, by default the stem of the file.  Raises InputError if two labels are equal."""
    results: dict[str, Path] = {}
    for each in files:
        label, sign, file = each.partition("=")
        path = Path(file if sign else each)
        label = label if sign else path.stem
        if label in results:
            raise InputError(f"`FILES` must have different labels, got {label} twice; write LABEL=FILE.nc")
        results[label] = path
    return results


def _with_numbers(results: dict[str, Path]) -> dict[str, Path] | dict[int, Path] | dict[float, Path]:
    """Return the files with numbers as labels if all labels are numbers."""
    for number in (int, float):  # int first: integers stay integers
        try:
            return {number(label): path for label, path in results.items()}
        except ValueError:
            continue
    return results


@click.command()
@click.argument("file", metavar="FILE.nc|FOLDER", type=click.Path(path_type=Path))
@click.option("--rerun", type=click.IntRange(0), default=0, metavar="N", help="Compute N runs of each result again.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Decides which runs are drawn.")
@code_option
def verify(file: Path, rerun: int, seed: int, code: Path | None) -> None:
    """Check a result, or a folder that `evogt publish` wrote, without executing anything of it.

    The checks are checksums, schema, run keys, missing runs and values.  In a folder every file is compared with its
    checksum first.  Failed and diverged runs are no mistakes.  Exit code 1 if anything is wrong.

    --rerun executes the code of the study if none of its files has changed since the result was computed.  It prints
    the names of these files first.  Read the files of other people before.
    """
    from evogt_study.operations.verify import verify as verified
    from evogt_study.publishing.publish import verify_deposit

    options: dict[str, Any] = {"rerun": rerun, "seed": seed, "code": code, "announce": _announce}
    if file.is_dir():
        made = list(map(_told, verify_deposit(file, **options)))
    else:
        found = verified(file, **options)
        tell_unfinished(file)
        made = [_told(found)]
    if not all(made):
        raise SystemExit(SOME_FAILED)


def _announce(files: Sequence[str]) -> None:
    """Print the files that are executed next."""
    for each in files:
        tell(f"  executes: {each}")


def _told(made: Verification) -> bool:
    """Print the outcome of one check; return True if nothing is wrong."""
    from evogt_study.analysis.status_counts import completeness

    for phase, data in made.phases.items():
        tell(f"{made.path} ({phase}): {format_counts(completeness(data))}")
    for line in made.recomputed:
        tell(f"  computed again: {line}")
    for line in made.findings:
        tell(f"  wrong: {line}")
    if made.left_out:
        tell(f"  {made.left_out}")
    tell(f"{made.path}: " + ("all well" if made.well else f"{len(made.findings)} wrong"))
    return made.well


@click.command()
@click.argument("file", metavar="FILE.nc", type=click.Path(path_type=Path))
@click.option("--at", "points", multiple=True, metavar="AXIS=VALUE,...", help="The case: a value for each axis.")
@click.option("--pilot", is_flag=True, help="A case of the pilot.")
@code_option
def replay(file: Path, points: tuple[str, ...], pilot: bool, code: Path | None) -> None:
    """Compute one case of a result again, here, and compare it bit for bit; a traceback where the run raises.

    Axes of one value may be left out of --at.  Exit code 1 where anything differs, or the run fails (again).
    """
    from evogt_study.operations.replay import replay as replayed
    from evogt_study.study.case_space import read_point

    made = replayed(file, read_point(",".join(points)), pilot=pilot, code=code)
    tell_unfinished(file)
    tell(f"{file} ({'pilot' if pilot else 'main'}): {made.point}, case {made.case.key}")
    for line in made.describe():
        tell(line)
    if made.raised:
        tell_lines(made.raised.rstrip("\n"), err=True)
    if not made.equal:
        raise SystemExit(SOME_FAILED)


@click.command()
@click.argument("results", metavar="RESULT.nc...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", metavar="FOLDER", required=True, type=click.Path(path_type=Path), help="New folder.")
@click.option("--title", default="", help="Title of the deposit.  [default: that of the first result]")
def publish(results: tuple[Path, ...], output: Path, title: str) -> None:
    """Write results as a folder to deposit in a repository of research data, with all it takes to cite and check them.

    That is results, studies with the files that their runs need, report pages, lists of packages, README, CITATION.cff,
    the record for a DOI (DataCite), and metadata for programs (RO-Crate); the folder is a BagIt bag. Who made the
    results, and on what terms others may use them, is said by the section [publication] of their study files. Nothing
    is computed and nothing is sent; `evogt verify FOLDER` checks it anywhere.
    """
    from evogt_study.publishing.publish import publish as published

    check_finished(*results)
    made = published(results, output, title=title)
    for study in made.studies:
        message = "; ".join(f"{phase}: {runs}" for phase, runs in study.runs.items())
        beside = f"; with {', '.join(study.beside)}" if study.beside else ""
        tell(f"  {study.name}: {message}{beside}")
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    tell(f"{output}: {len(made.studies)} results, {size / 1e6:,.1f} MB, {made.publication.license}")

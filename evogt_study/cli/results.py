"""Define the commands `evogt merge`, `diff`, `verify` and `publish`, which read whole results."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evogt_study.cli import display, inputs
from evogt_study.cli.inputs import option
from evogt_study.cli.main import FAILED
from evogt_study.errors import InputError
from evogt_study.text import format_count, print_line

if TYPE_CHECKING:
    from evogt_study.operations.verify import Verification


@inputs.make_command([inputs.argument("paths", "[LABEL=]FILE.nc...", nargs=-1, required=True, type=str)], [
    option("-o --output", "PATH", "New result file.", required=True),
    option("--study", "STUDY.toml",
           "Study that includes all runs.  [default: the study of the files, with all axis values]"),
    option("--along dim", "NAME", "Join results of several studies along this new dimension."),
])  # fmt: skip
def merge(paths: tuple[str, ...], output: Path, study: Path | None, dim: str | None) -> None:
    """Join results of one study from several computations, for example some seeds on each machine.

    If several files have a run, the values of this run must be equal bit for bit.  A run that is ok replaces a run with
    another status.  `evogt run STUDY.toml -o OUTPUT` runs the missing cases.

    With --along NAME, join results of several studies.  LABEL is the value of a file along NAME, by default the name of
    the file.  Constants that differ become coordinates along NAME.  Other commands read the new file like any result.
    The new file holds no study that `evogt run` could run.
    """
    if dim is not None:
        inputs.refuse_options("--along", allowed="output dim")
        from evogt_study.operations.merge import concat

        results = _read_labels(paths)
        inputs.check_finished(*results.values())
        concat(results, dim, output=output)
        display.print_result(output)
        return
    from evogt_study.operations.merge import merge as merged
    from evogt_study.results.reopened import study_as_recorded

    files = list(map(Path, paths))
    inputs.check_exists(*files)
    merged(files, output, study=None if study is None else study_as_recorded(study, files))
    for each in files:
        display.warn_if_unfinished(each)
    display.print_result(output)


def _read_labels(files: tuple[str, ...]) -> dict[Any, Path]:
    """Return the files by label.  The default label is the stem of the name.  Numeric texts become numbers."""
    results: dict[Any, Path] = {}
    for each in files:
        label, _, file = each.partition("=") if "=" in each else (Path(each).stem, "", each)
        if label in results:
            raise InputError(f"`FILE.nc` must have different labels, got {label} twice. Write LABEL=FILE.nc.")
        results[label] = Path(file)
    for number in (int, float):  # int first, so that integers stay integers
        with suppress(ValueError):
            return {number(label): path for label, path in results.items()}
    return results


@inputs.make_command([inputs.argument("one", "A.nc"), inputs.argument("other", "B.nc")], [inputs.PILOT, inputs.JSON])
def diff(one: Path, other: Path, pilot: bool, as_json: bool) -> None:
    """Show the runs in which two results differ.

    The command compares runs with equal parameter values, and the code of the studies.

    To compare results of different parameter values, join them with `evogt merge --along` and use `evogt compare`.
    """
    from evogt_study.operations.diff import diff as compared

    inputs.check_exists(one, other)
    found = compared(one, other, pilot=pilot)
    for each in (one, other):
        display.warn_if_unfinished(each)
    if as_json:
        display.print_json(found.document())
    else:
        display.print_lines(found.describe())


@inputs.make_command([inputs.argument("file", "FILE.nc|FOLDER")], [
    option("--rerun", "N", "Compute N runs of each result again.", type=click.IntRange(0), default=0),
    option("--seed", "N", "Seed of the choice of these runs.", type=click.IntRange(0), default=0),
    inputs.CODE, inputs.JSON,
])  # fmt: skip
def verify(file: Path, as_json: bool, **options: Any) -> None:
    """Check a result, or a folder that `evogt publish` wrote.  Nothing is executed.

    The command checks checksums, schema, run keys, missing runs and values.  In a folder, the command first compares
    every file with its checksum.  Failed and diverged runs are not errors.  The exit code is 0 if all checks succeed.

    --rerun executes the code of the study if none of its files has changed since the result was computed.  The command
    first prints the names of these files.  Read the files of other people before you use --rerun.
    """
    from evogt_study.operations.verify import verify as verified
    from evogt_study.publishing.publish import verify_deposit

    if not as_json:
        options["announce"] = lambda files: display.print_lines(f"  executes: {each}" for each in files)
    made = verify_deposit(file, **options) if file.is_dir() else [verified(file, **options)]
    # prints each result after its check
    documents = [_print_verification(each, as_json, options["rerun"]) for each in made]
    if not file.is_dir():
        display.warn_if_unfinished(file)
    well = all(each["well"] for each in documents)
    if as_json:
        display.print_json({"well": well, "results": documents})
    if not well:
        raise SystemExit(FAILED)


def _print_verification(made: Verification, as_json: bool, rerun: int) -> dict[str, Any]:
    """Print the verification of one result unless `as_json` is true.  Return the verification in JSON types."""
    from evogt_study.analysis.runs import count_status

    phases = {phase: count_status(data) for phase, data in made.phases.items()}
    if not as_json:
        for phase, found in phases.items():
            print_line(f"{display.format_phase(made.path, phase)}: {found.describe()}")
        display.print_lines(f"  computed again: {line}" for line in made.recomputed)
        display.print_lines(f"  wrong: {line}" for line in made.findings)
        display.print_lines([f"  {made.left_out}"] if made.left_out else [])
        not_checked = f"well, but 0 of {rerun} runs were computed again" if made.left_out else "all well"
        print_line(f"{made.path}: " + (f"{len(made.findings)} wrong" if made.findings else not_checked))
    return {
        "result": str(made.path), "well": made.well, "findings": made.findings, "recomputed": made.recomputed,
        "left_out": made.left_out, "phases": display.describe_runs_as_json(phases),
    }  # fmt: skip


@inputs.make_command([inputs.argument("results", "RESULT.nc...", nargs=-1, required=True)], [
    option("-o --output", "FOLDER", "New folder.", required=True),
    option("--title", "TEXT", "Title of the deposit.  [default: title of the first result]", default=""),
])  # fmt: skip
def publish(results: tuple[Path, ...], output: Path, title: str) -> None:
    """Write results as a folder to deposit in a repository of research data.

    The folder has results, studies with the files that their runs need, report pages, lists of packages, README,
    CITATION.cff and metadata for programs (RO-Crate).  The folder is a BagIt bag.  The section [publication] of the
    study files names creators and license.  Run `evogt verify FOLDER` to check the folder on any machine.
    """
    from evogt_study.publishing.publish import publish as published

    inputs.check_finished(*results)
    made = published(results, output, title=title)
    for study in made.studies:
        message = "; ".join(f"{phase}: {runs}" for phase, runs in study.runs.items())
        beside = f"; with {', '.join(study.beside)}" if study.beside else ""
        print_line(f"  {study.name}: {message}{beside}")
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    count = format_count(len(made.studies), "result")
    print_line(f"{output}: {count}, {size / 1e6:,.1f} MB, {made.publication.license}")

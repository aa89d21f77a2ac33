"""The command `evogt publish`."""

from __future__ import annotations

from pathlib import Path

import click

from evogt_study.cli.chosen_runs import check_finished
from evogt_study.publishing.publish import publish as published
from evogt_study.text import tell


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
    check_finished(*results)
    made = published(results, output, title=title)
    for study in made.studies:
        told = "; ".join(f"{phase}: {runs}" for phase, runs in study.runs.items())
        beside = f"; with {', '.join(study.beside)}" if study.beside else ""
        tell(f"  {study.name}: {told}{beside}")
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    tell(f"{output}: {len(made.studies)} results, {size / 1e6:,.1f} MB, {made.publication.license}")

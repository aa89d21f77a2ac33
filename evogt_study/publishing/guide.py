"""The README of a deposit, for a person who has nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from evogt_study.publishing.contents import Deposit, DepositedStudy
from evogt_study.text import shown


def guide(deposit: Deposit) -> str:
    """Text of README.md, in which control characters of titles and names are escaped, and no HTML of theirs acts."""
    text = "\n".join([*_head(deposit), *_table(deposit), *_use(deposit)]) + "\n"
    return shown(text, kept="\n").replace("<", "&lt;")


def _head(deposit: Deposit) -> Iterator[str]:
    publication = deposit.publication
    yield from (f"# {_cell(deposit.title)}", "", deposit.description, "")
    for creator in publication.creators:
        details = ", ".join(filter(None, (creator.affiliation, creator.orcid)))
        yield f"- {creator.name}" + (f" ({details})" if details else "")
    facts = {
        "Institution": publication.institution,
        "Project": publication.project,
        "License": f"{publication.license}, {deposit.license_address}",
        "DOI": publication.doi,
        "References": publication.references,
        "Acknowledgement": publication.acknowledgement,
        "Date of the latest result": deposit.created,
    }
    yield ""
    yield from (f"{name}: {fact}  " for name, fact in facts.items() if fact)  # two spaces end a line in Markdown


def _table(deposit: Deposit) -> Iterator[str]:
    yield from ("", "## What is here", "", "| result | question | runs | study | page |", "|---|---|---|---|---|")
    for study in deposit.studies:
        runs = "; ".join(told if phase == "study" else f"{phase}: {told}" for phase, told in study.runs.items())
        cells = [f"[{study.name}.nc]({study.result})", _cell(study.title), runs]
        yield f"| {' | '.join(cells)} | [study]({study.text}) | [report]({study.page}) |"
    yield ""
    yield "Reports open in any browser, without a network. `environments/` lists the packages of each result for pip."
    yield "For programs, `ro-crate-metadata.json` says what made each file; `datacite.json` is the record for a DOI."


def _use(deposit: Deposit) -> Iterator[str]:
    first = deposit.studies[0]
    version = first.attributes.get("product_version", "")
    yield from (
        "", "## Read it", "", "Results are NetCDF (CF, ACDD):", "", "```python", "import xarray as xr",
        f'data = xr.open_dataset("{first.result}")', "```", "", "`status` is 1 for runs that have numbers.",
    )  # fmt: skip
    yield from (
        "", "## Check it", "",
        f"With Python, in the folder of this file (the results are of evogt-study {version}):", "",
        "```sh", f"pip install -r '{first.lock}'", "evogt verify ..", "```", "",  # the bag is the folder above this one
        "This holds every file against its checksum, checks the results, and computes a sample of their runs again. It",
        "runs the Python files in `studies/`, where there are any; `--sample 0` runs nothing.",
    )  # fmt: skip
    yield from ("", "## Compute it again", "", "```sh", *(_command(study) for study in deposit.studies), "```")
    stated_in_python = [study.name for study in deposit.studies if _is_only_python(study)]
    if stated_in_python:
        yield from (
            "",
            f"Functions of {', '.join(stated_in_python)} were given in Python and are in no file: their text",
        )
        yield "is in the attribute `study_code` of the result, and `evogt run` cannot compute it from here."


def _command(study: DepositedStudy) -> str:
    # outside of the bag, which is the folder above: what lies in it has to be in its manifest
    return f"evogt run '{study.text}' -o '../../again/{study.name}.nc'"


# a function of a script or a notebook, which no file has, is recorded with its source
def _is_only_python(study: DepositedStudy) -> bool:
    return '"source":' in study.attributes.get("study_code", "")


def _cell(text: str) -> str:
    """A text within one line of a table."""
    return " ".join(text.replace("|", "\\|").split())

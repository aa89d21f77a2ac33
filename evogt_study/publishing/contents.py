"""Parts of a deposit: each result with its study, and what they have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import xarray as xr

from evogt_study.analysis.completeness import completeness
from evogt_study.errors import InputError, ResultError
from evogt_study.operations.verify import verify
from evogt_study.publishing.named_files import files_beside
from evogt_study.results.dataset import software_sets
from evogt_study.results.netcdf import opened
from evogt_study.results.reopened import study_in
from evogt_study.study.model import PublicationTable
from evogt_study.study.phases import STUDY

SPDX = "https://spdx.org/licenses/"


@dataclass(frozen=True, eq=False)
class DepositedStudy:
    """One result, and what it takes to understand and to repeat it.

    attributes: the global ones of its file.  runs: their fates by phase, in words.  software: the sets of versions that
    computed them.  study_file: the name of the study's text in the deposit.  beside: files that its runs need, by their
    path from there.  page, lock: paths in the deposit of its report page and of its list of packages, which several
    studies may share.
    """

    path: Path
    attributes: Mapping[str, str]
    runs: Mapping[str, str]
    software: Sequence[Mapping[str, Any]]
    study_file: str
    beside: Mapping[str, Path]
    references: Sequence[str]
    publication: PublicationTable | None
    page: str = ""
    lock: str = ""

    @property
    def name(self) -> str:
        """The stem of its file, which names all that belongs to it."""
        return self.path.stem

    @property
    def title(self) -> str:
        """The study's title, or its name if it has none."""
        return self.attributes.get("title") or self.name

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions with which the file was written."""
        return {name: str(version) for name, version in json.loads(self.attributes.get("versions", "{}")).items()}

    @property
    def result(self) -> str:
        """Path of the result in the deposit."""
        return f"results/{self.name}.nc"

    @property
    def text(self) -> str:
        """Path of the study file in the deposit."""
        return f"studies/{self.name}/{self.study_file}"


@dataclass(frozen=True, eq=False)
class Deposit:
    """Several results with one title, and the people and terms that their studies name."""

    title: str
    publication: PublicationTable
    studies: Sequence[DepositedStudy]

    @property
    def created(self) -> str:
        """Date of the latest result, YYYY-MM-DD; the deposit has no other, so that it is the same when made again."""
        return max(each.attributes["date_created"] for each in self.studies)[:10]

    @property
    def description(self) -> str:
        """Abstract: the summaries of the results."""
        return " ".join(dict.fromkeys(each.attributes.get("summary", "") for each in self.studies))

    @property
    def keywords(self) -> list[str]:
        """Keywords of the results, each once."""
        found = [word.strip() for each in self.studies for word in each.attributes.get("keywords", "").split(",")]
        return [word for word in dict.fromkeys(found) if word]

    @property
    def license_address(self) -> str:
        """The address of the licence."""
        text = self.publication.license
        return text if "://" in text else SPDX + text


def deposit(paths: Sequence[Path], title: str = "") -> Deposit:
    """Collect what is deposited of some results.

    Raises InputError where two have one name or name different people and terms, or none names any; ResultError for one
    that is no result, is not all well, or whose study's files are not there any more.
    """
    names = [path.stem for path in paths]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"`RESULT` must be files of different names, got two of the name {twice!r}; rename one")
    studies = [deposited_study(path) for path in paths]
    more = f" and {len(studies) - 1} more" if len(studies) > 1 else ""
    return Deposit(title or studies[0].title + more, _publication(studies), studies)


def _publication(studies: Sequence[DepositedStudy]) -> PublicationTable:
    """The section that those studies which have one agree on.  Raises InputError."""
    stated = [(each.path, each.publication) for each in studies if each.publication is not None]
    if not stated:
        raise InputError(
            "`[publication]` must name creators and a license to publish results, got none "
            f"({studies[0].attributes.get('study_file', studies[0].path)}); add it to the study file, or give "
            "evs.Study(publication={...}) where there is none, and run the study again, which computes nothing for it"
        )
    first, publication = stated[0]
    for path, other in stated:
        if other != publication:
            raise InputError(
                f"`[publication]` must be the same in all results of a deposit, got another in {path} than in {first}"
            )
    return publication


def deposited_study(path: Path) -> DepositedStudy:
    """Collect what is deposited of one result.  Nothing of its study is imported.  Raises ResultError."""
    _check_well(path)
    with opened(path) as groups:
        main: xr.Dataset = groups[STUDY]
        study = study_in(path, main)
        return DepositedStudy(
            path=path,
            attributes={str(name): str(value) for name, value in main.attrs.items()},
            runs={phase: completeness(data).told() for phase, data in groups.items()},
            software=software_sets(main),
            study_file=_study_file(study.file, path),
            beside=files_beside(path, study),
            references=tuple(code.reference for code in study.spec.codes),
            publication=study.publication,
        )


def _check_well(path: Path) -> None:
    """Raise ResultError where anything is wrong with a result.  To compute runs again is left to its reader."""
    found = verify(path, sample=0).findings
    if found:
        raise ResultError(f"a result must be all well to be published, got {path}: {found[0]}; `evogt verify` says all")


def _study_file(recorded: str, path: Path) -> str:
    """The name of a study's file; one that was stated in Python has none."""
    # results may come from a system that separates folders by a backslash
    name = PurePath(recorded.replace("\\", "/")).name
    return name if name.endswith(".toml") else f"{path.stem}.toml"

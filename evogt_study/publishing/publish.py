"""Results written as a deposit: a folder that is a BagIt bag with an RO-Crate in it, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evogt_study.errors import InputError, ResultError
from evogt_study.publishing.bag import PAYLOAD, write_bag
from evogt_study.publishing.citation import citation
from evogt_study.publishing.contents import Deposit, DepositedStudy, deposit
from evogt_study.publishing.datacite import datacite
from evogt_study.publishing.environment_lock import environment_lock
from evogt_study.publishing.guide import guide
from evogt_study.publishing.pages import TOGETHER, page_of, pages
from evogt_study.publishing.ro_crate import METADATA, ro_crate
from evogt_study.results.provenance import package_version
from evogt_study.storage.atomic import folder_written_whole


def publish(results: Sequence[str | Path], folder: str | Path, *, title: str = "") -> Deposit:
    """Write results, and what it takes to cite, check and repeat them, as the new folder `folder`.

    title: of the deposit; left out, that of the first result.  The people and terms are those of the studies' section
    ``[publication]``.  Nothing of a study is imported, nothing is computed and nothing is sent anywhere.

    Raises InputError where the folder exists, or the results do not say who made them; ResultError for what is no
    result, is not all well, or lacks a file that its runs need.
    """
    folder = Path(folder)
    if folder.exists() or folder.is_symlink():  # a link to nothing does not exist, and is in the way
        raise InputError(f"`--output` must be a new folder, got {folder}, which exists; choose another place with -o")
    made = deposit([Path(path) for path in results], title)
    try:
        with folder_written_whole(folder) as temporary:
            _write(made, temporary)
    except OSError as error:
        raise ResultError(f"cannot write {folder}: {error.strerror or error}; choose another place with -o") from None
    return made


# sizes are taken before the metadata file is there, which cannot hold its own
def _write(made: Deposit, folder: Path) -> None:
    """Write the payload, its metadata, and the manifests last, which hold the checksums of all."""
    root = folder / PAYLOAD
    for study in made.studies:
        _write_study(study, root)
    made = _with_locks(_with_pages(made, root), root)
    _put(root / "README.md", guide(made))
    _put(root / "CITATION.cff", citation(made))
    _put(root / "datacite.json", _json(datacite(made)))
    sizes = {path.relative_to(root).as_posix(): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    _put(root / METADATA, _json(ro_crate(made, sizes)))
    info = {
        "Bag-Software-Agent": f"evogt-study {package_version()}",
        "Bagging-Date": made.created,
        "Source-Organization": made.publication.institution,
        "External-Description": made.title,
        "External-Identifier": made.publication.doi or "",
    }
    write_bag(folder, {name: text for name, text in info.items() if text})


def _write_study(study: DepositedStudy, root: Path) -> None:
    result = root / study.result
    result.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(study.path, result)
    for name, path in study.beside.items():
        place = root / "studies" / study.name / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    _put(root / study.text, study.attributes["study"])


def _with_pages(made: Deposit, root: Path) -> Deposit:
    texts = pages(made, root)
    for path, text in texts.items():
        _put(root / path, text)
    own = [(study, page_of(study)) for study in made.studies]
    return replace(made, studies=[replace(study, page=page if page in texts else TOGETHER) for study, page in own])


def _with_locks(made: Deposit, root: Path) -> Deposit:
    """Write one list for all studies whose packages are the same, under the name of the first."""
    texts = [environment_lock(study) for study in made.studies]
    places: dict[str, str] = {}
    for study, text in zip(made.studies, texts, strict=True):
        _put(root / places.setdefault(text, f"environments/{study.name}.txt"), text)
    locked = zip(made.studies, texts, strict=True)
    return replace(made, studies=[replace(study, lock=places[text]) for study, text in locked])


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # with the line ends that the text has: a study's digest is one of all its characters
    path.write_text(text, encoding="utf-8", newline="")

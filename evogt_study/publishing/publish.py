"""Write results as a deposit and check a deposit.

A deposit is a BagIt bag (BagIt 1.0, RFC 8493), which is a folder with checksums, and contains an RO-Crate.  `publish`
writes the folder atomically.
"""

import logging
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evogt_study.errors import InputError, ResultError, shorten
from evogt_study.operations.verify import Verification, verify
from evogt_study.publishing.contents import Deposit, collect_deposit, list_requirements
from evogt_study.publishing.report import report
from evogt_study.results.netcdf import load_numbers, open_phases
from evogt_study.results.provenance import read_package_version
from evogt_study.schema.variables import MAIN
from evogt_study.storage.files import hash_file, read_bytes, read_text, write_atomically
from evogt_study.study.model import ORCID_ADDRESS, CreatorTable
from evogt_study.text import escape_text

_DECLARATION = "bagit.txt"
PAYLOAD = "data"
MANIFEST, TAG_MANIFEST = "manifest-sha256.txt", "tagmanifest-sha256.txt"
LINE = "\n"
MEDIA_TYPES = {
    ".nc": "application/x-netcdf", ".toml": "application/toml", ".py": "text/x-python", ".html": "text/html",
    ".txt": "text/plain", ".md": "text/markdown", ".cff": "application/yaml",
}  # fmt: skip


def publish(results: Sequence[str | Path], folder: str | Path, *, title: str = "") -> Deposit:
    """Write results as a new folder with all files to cite, check and repeat the results, without executing code.

    Raises InputError if the folder exists or no result names its creators.  Raises ResultError for a damaged result, or
    if a file that the runs need is missing.
    """
    missing = [name for name in ("bagit", "rocrate", "yaml") if find_spec(name) is None]
    if missing:
        raise InputError(f"`evogt publish` needs {', '.join(missing)}: pip install 'evogt-study[publish]'")
    folder = Path(folder)
    conflict = InputError(f"`output` must be a new folder, got {folder}, which exists. Choose another output folder.")
    exists = folder.exists() or folder.is_symlink()  # `exists` is false for a broken link
    if exists and not (folder / TAG_MANIFEST).is_file():
        raise conflict
    made = collect_deposit([Path(path) for path in results], title)
    try:
        with TemporaryDirectory() if exists else write_atomically(folder, tidy=True, folder=True) as place:
            _write_deposit(made, Path(place))
            tags = (Path(place) / TAG_MANIFEST).read_bytes()
            if exists and (read_bytes(folder / TAG_MANIFEST) != tags or any(check_bag(folder))):
                raise conflict
    except OSError as error:
        raise ResultError(f"cannot write {folder}: {error.strerror or error}. Choose another output folder.") from None
    return made


def _write_deposit(made: Deposit, folder: Path) -> None:
    """Write the files of a deposit, the metadata, and the manifests with the checksums."""
    import bagit  # extra `publish`

    texts = {"README.md": make_readme(made), "CITATION.cff": _to_citation(made)}
    for study in made.studies:
        beside = {f"studies/{study.name}/{name}": path for name, path in study.beside.items()}
        for name, path in {study.result: study.path, **beside}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
        with open_phases(folder / study.result) as groups:
            page = report(folder / study.result, {phase: load_numbers(data) for phase, data in groups.items()})
        texts |= {study.text: study.attributes["study"], study.lock: list_requirements(study), study.page: page}
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())  # equal line ends on all systems, because checksums depend on them
    _write_crate(made, folder)
    info = {
        "Bag-Software-Agent": f"evogt-study {read_package_version()}",
        "Bagging-Date": made.created,
        "Source-Organization": made.publication.institution,
        "External-Description": made.title,
        "External-Identifier": made.publication.doi or "",
    }
    known = {name: escape_text(" ".join(text.split())) for name, text in info.items() if text}
    logging.getLogger("bagit").disabled = True  # bagit would log the traceback of an error that it raises
    bag = bagit.make_bag(folder, known, checksums=["sha256"])
    # bagit.py writes version 0.97, and version 1.0 (RFC 8493) extends this version
    (folder / _DECLARATION).write_bytes(b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    bag.save()


def _to_citation(deposit: Deposit) -> str:
    """Return the text of the file CITATION.cff."""
    import yaml  # extra `publish`

    publication, authors = deposit.publication, []
    for each in publication.creators:
        family, given, is_person = _split_name(each)
        own: dict[str, Any] = {"family-names": family, "given-names": given} if is_person else {"name": family}
        own |= {
            "orcid": each.orcid and ORCID_ADDRESS + each.orcid,
            "affiliation": each.affiliation if is_person else "",
        }
        authors.append(_drop_empty({**own, "email": each.email}))
    address = "://" in publication.license
    known: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "If you use these results, please cite them.",
        "type": "dataset",
        "title": deposit.title,
        "abstract": deposit.description,
        "authors": authors,
        "date-released": deposit.created,
        "license-url" if address else "license": publication.license,  # `license` allows only SPDX identifiers
        "keywords": deposit.keywords,
        "doi": publication.doi,
    }
    return str(yaml.safe_dump(_drop_empty(known), sort_keys=False, width=float("inf")))


def _write_crate(deposit: Deposit, folder: Path) -> None:
    """Write the RO-Crate metadata of a folder that contains all other files of the deposit."""
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate

    crate, publication = ROCrate(version="1.2"), deposit.publication

    def add(identifier: str, properties: Mapping[str, Any]) -> dict[str, str]:
        return {"@id": crate.add(ContextEntity(crate, identifier, _drop_empty(properties))).id}

    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        properties = _drop_empty({"name": name, "encodingFormat": MEDIA_TYPES.get(path.suffix)})
        crate.add_file(path, dest_path=name, properties=properties, record_size=True)
    authors = []
    for number, creator in enumerate(publication.creators, 1):
        family, given, is_person = _split_name(creator)
        known: dict[str, Any] = {"@type": "Organization", "name": family, "email": creator.email}
        if is_person:
            name = f"{given} {family}".strip()
            known |= _drop_empty({"@type": "Person", "name": name, "familyName": family, "givenName": given})
        if creator.affiliation:
            affiliation = {"@type": "Organization", "name": creator.affiliation}
            known["affiliation"] = add(f"#affiliation-{number}", affiliation)
        authors.append(add(ORCID_ADDRESS + creator.orcid if creator.orcid else f"#creator-{number}", known))
    terms = {"@type": "CreativeWork", "name": publication.license, "description": "terms of use of the results"}
    publisher = {"@type": "Organization", "name": publication.publisher}
    described = {
        "name": deposit.title,
        "description": deposit.description,
        "datePublished": deposit.created,
        "license": add(deposit.license_address, terms),
        "author": authors if len(authors) > 1 else authors[0],  # RO-Crate 1.2 requires a single value without a list
        "publisher": add("#publisher", publisher) if publication.publisher else None,
        "identifier": f"https://doi.org/{publication.doi}" if publication.doi else None,
        "keywords": ", ".join(deposit.keywords),
    }
    for name, value in _drop_empty(described).items():
        crate.root_dataset[name] = value
    crate.write(folder)


def _drop_empty(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if value}


def _split_name(creator: CreatorTable) -> tuple[str, str, bool]:
    """Split a name "Family, Given", and return True for a person.  A name without a comma is an organisation."""
    family, comma, given = map(str.strip, creator.name.partition(","))
    return family, given, bool(comma)


def verify_deposit(folder: str | Path, **options: Any) -> Iterator[Verification]:
    """Yield the verification of all checksums, and then of each result if the checksums are correct."""
    folder = Path(folder)
    damage = tuple(check_bag(folder))
    results = sorted((folder / PAYLOAD / "results").glob("*.nc"))
    if not results and not damage:
        damage = (f"there is no result in {folder / PAYLOAD / 'results'}",)
    yield Verification(folder, damage, "nothing else was checked" if damage else "")
    for path in () if damage else results:
        beside = folder / PAYLOAD / "studies" / path.stem
        yield verify(path, **options, folder=beside)


def make_readme(deposit: Deposit) -> str:
    """Return the text of README.md, with escapes for control characters and HTML in titles and names."""
    first, publication, rows = deposit.studies[0], deposit.publication, []
    for study in deposit.studies:
        runs = "; ".join(counts if phase == MAIN else f"{phase}: {counts}" for phase, counts in study.runs.items())
        links = f"[study]({study.text}) | [report]({study.page})"
        rows.append(f"| [{study.name}.nc]({study.result}) | {_escape_cell(study.title)} | {runs} | {links} |")
    people = [f"- {', '.join(filter(None, (one.name, one.affiliation, one.orcid)))}" for one in publication.creators]
    facts = {
        "Institution": publication.institution, "Project": publication.project,
        "License": f"{publication.license}, {deposit.license_address}", "DOI": publication.doi,
        "References": publication.references, "Acknowledgement": publication.acknowledgement,
        "Date of the latest result": deposit.created,
    }  # fmt: skip
    # in Markdown, two spaces end a line
    terms = LINE.join([*people, "", *(f"{name}: {fact}  " for name, fact in facts.items() if fact)])
    # write outside the bag, because a manifest must list all files of the bag
    commands = LINE.join(f"evogt run '{study.text}' -o '../../again/{study.name}.nc'" for study in deposit.studies)
    # a result records the source of a function from a script or a notebook
    in_python = [study.name for study in deposit.studies if '"source":' in study.attributes.get("study_code", "")]
    text = f"""# {_escape_cell(deposit.title)}

{deposit.description}

{terms}

## Contents

| result | title | runs | study | page |
|---|---|---|---|---|
{LINE.join(rows)}

Reports open in any browser, without a network. `environments/` lists the packages of each result for pip.
For programs, `ro-crate-metadata.json` describes the files, and `CITATION.cff` says how to cite them.

## Read the results

Results are NetCDF (CF, ACDD):

```python
import xarray as xr
data = xr.open_dataset("{first.result}")
```

`run_status` is 1 for runs that have numbers.

## Check the deposit

With Python, in the folder of this file (evogt-study {first.attributes.get("product_version", "")} wrote the results):

```sh
pip install -r '{first.lock}'
evogt verify ..
```

The command compares every file with its checksum and checks the results. It executes no code of the studies.
`--rerun 3` computes three runs of each result again. This executes the Python files in `studies/`, so read them first.

## Compute the results again

```sh
{commands}
```
"""
    if in_python:
        text += f"""
No file holds the functions of {", ".join(in_python)}. The attribute `study_code` of the result has their source, but
`evogt run` cannot use it.
"""
    return escape_text(text, kept="\n").replace("<", "&lt;")


def _escape_cell(text: str) -> str:
    """Escape text for one cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())


def check_bag(folder: Path) -> Iterator[str]:
    """Yield one line for each missing, unlisted or changed file of a bag.  Any other folder raises InputError."""
    if not (folder / _DECLARATION).is_file():
        raise InputError(
            f"`FILE` must be a result or a deposit of `evogt publish`, got {folder}, a folder without {_DECLARATION}"
        )
    # includes links, pipes and devices, without following links
    known = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    files = {path.relative_to(folder).as_posix(): path for path in known}
    for path, whole in files.items():
        if whole.is_symlink() or not whole.is_file():
            yield f"{shorten(path)} is a link, a pipe or a device"
    for name, root in ((MANIFEST, f"{PAYLOAD}/"), (TAG_MANIFEST, "")):
        listed = _read_manifest(folder, name)
        for path, digest in listed.items():
            if path not in files:  # rejects a path that leaves the folder
                yield f"{name} lists {shorten(path)}, which does not exist"
                continue
            try:
                found = hash_file(files[path], folder)
            except OSError as error:
                found = ""
                yield f"{path} cannot be read: {error.strerror}"
            if found not in (digest, ""):
                yield f"{path} differs from its SHA-256 checksum in {name}"
        if name == MANIFEST:  # RFC 8493 allows tag files without a checksum
            yield from (f"{path} is in no manifest" for path in files if path.startswith(root) and path not in listed)


def _read_manifest(folder: Path, name: str) -> dict[str, str]:
    """Read the checksums of a manifest by path.  RFC 8493 escapes %, CR and LF in paths.  Raises ResultError."""
    lines = read_text(folder / name, "the manifest", ResultError, folder).splitlines()
    # sha256sum writes "*" before the names of binary files
    found = [re.fullmatch(r"([0-9a-fA-F]{64})[ \t]+\*?(.+)", line) for line in lines if line.strip()]
    if None in found:
        raise ResultError(f"{folder / name} must list checksums and paths on all lines. Copy the deposit again.")
    # some programs write checksums in capitals
    return {
        re.sub("%(25|0D|0A)", lambda escape: chr(int(escape[1], 16)), line[2], flags=re.IGNORECASE): line[1].lower()
        for line in found if line is not None
    }  # fmt: skip

"""Metadata of a deposit for other programs.

`to_citation` writes the text of CITATION.cff.  `write_crate` writes the description of the deposit and its files
(RO-Crate 1.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evogt_study.publishing.contents import Deposit
from evogt_study.study.model import ORCID, CreatorTable

MEDIA_TYPES = {
    ".nc": "application/x-netcdf", ".toml": "application/toml", ".py": "text/x-python", ".html": "text/html",
    ".txt": "text/plain", ".md": "text/markdown", ".cff": "application/yaml",
}  # fmt: skip
"""Media types by suffix.  Files with other suffixes have no media type."""


def to_citation(deposit: Deposit) -> str:
    """Return the text of CITATION.cff."""
    import yaml  # extra `publish`

    publication = deposit.publication
    address = "://" in publication.license
    known: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "If you use these results, please cite them.",
        "type": "dataset",
        "title": deposit.title,
        "abstract": deposit.description,
        "authors": [_cff_author(each) for each in publication.creators],
        "date-released": deposit.created,
        "license-url" if address else "license": publication.license,  # `license` takes identifiers of SPDX alone
        "keywords": deposit.keywords,
        "doi": publication.doi,
    }
    return str(yaml.safe_dump(_drop_empty(known), sort_keys=False, width=float("inf")))


def write_crate(deposit: Deposit, folder: Path) -> None:
    """Write the metadata file of a folder that holds all other files of the deposit."""
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
        parts = _split_name(creator)
        known: dict[str, Any] = {"@type": "Organization", "name": creator.name, "email": creator.email}
        if parts is not None:
            names = {"name": f"{parts[1]} {parts[0]}", "familyName": parts[0], "givenName": parts[1]}
            known |= {"@type": "Person", **names}
        if creator.affiliation:
            affiliation = {"@type": "Organization", "name": creator.affiliation}
            known["affiliation"] = add(f"#affiliation-{number}", affiliation)
        authors.append(add(ORCID + creator.orcid if creator.orcid else f"#creator-{number}", known))
    terms = {"@type": "CreativeWork", "name": publication.license, "description": "terms of use of the results"}
    publisher = {"@type": "Organization", "name": publication.publisher}
    described = {
        "name": deposit.title,
        "description": deposit.description,
        "datePublished": deposit.created,
        "license": add(deposit.license_address, terms),
        "author": authors if len(authors) > 1 else authors[0],  # RO-Crate 1.2 writes a single value without a list
        "publisher": add("#publisher", publisher) if publication.publisher else None,
        "identifier": f"https://doi.org/{publication.doi}" if publication.doi else None,
        "keywords": ", ".join(deposit.keywords),
    }
    for name, value in _drop_empty(described).items():
        crate.root_dataset[name] = value
    crate.write(folder)


def _drop_empty(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in properties.items() if value}


def _split_name(creator: CreatorTable) -> tuple[str, str] | None:
    """Return family and given name of a person, or None for an organisation.  Names of persons have a comma."""
    family, comma, given = creator.name.partition(",")
    return (family.strip(), given.strip()) if comma else None


def _cff_author(creator: CreatorTable) -> dict[str, Any]:
    """Return a person or an entity as an author of CITATION.cff."""
    parts = _split_name(creator)
    known = {"name": creator.name} if parts is None else {"family-names": parts[0], "given-names": parts[1]}
    affiliation = creator.affiliation if parts else ""  # of a person only
    orcid = creator.orcid and ORCID + creator.orcid
    return _drop_empty({**known, "orcid": orcid, "affiliation": affiliation, "email": creator.email})

"""Metadata of a deposit for other programs.

`to_citation` makes CITATION.cff, `to_datacite` the record for a DOI (DataCite 4.5), and `write_crate` the description
of each file and of the run that made it (RO-Crate 1.2, Workflow Run Crate 0.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from evogt_study.publishing.contents import SPDX, Deposit, DepositedStudy
from evogt_study.study.model import ORCID, CreatorTable

_UNKNOWN = "(:unav)"
"""Value of DataCite for an unknown entry (schema 4.5, appendix 3), which the repository fills in."""
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
"""Profiles of the crate.  The second extends the others and requires their names."""
MEDIA_TYPES = {
    ".nc": "application/x-netcdf", ".toml": "application/toml", ".py": "text/x-python", ".html": "text/html",
    ".txt": "text/plain", ".md": "text/markdown", ".cff": "application/yaml", ".json": "application/json",
}  # fmt: skip
"""Media types by suffix.  Files with other suffixes get none."""
LANGUAGE = {
    "@type": ["ComputerLanguage", "SoftwareApplication"],
    "name": "evogt-study",
    "description": "Study files: TOML that states a parametric study, which `evogt run` computes.",
    "url": "https://pypi.org/project/evogt-study/",
}
COMMON_FILES = {
    "README.md": "contents; how to read, check and compute them again",
    "CITATION.cff": "how to cite it",
    "datacite.json": "the record from which a DOI is registered",
}
Entity = Mapping[str, Any]


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
    text = {name: value for name, value in known.items() if value}
    return str(yaml.safe_dump(text, sort_keys=False, width=float("inf")))


def to_datacite(deposit: Deposit) -> dict[str, Any]:
    """Return the record of a deposit, of type Dataset."""
    publication = deposit.publication
    rights = {"rights": publication.license, "rightsUri": deposit.license_address}
    if "://" not in publication.license:
        rights |= {"rightsIdentifier": publication.license, "rightsIdentifierScheme": "SPDX", "schemeUri": SPDX}
    descriptions = {"Abstract": deposit.description, "Other": publication.references}  # free text: no relatedIdentifier
    record: dict[str, Any] = {
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": "Results of parametric studies"},
        "creators": [_datacite_creator(each) for each in publication.creators],
        "titles": [{"title": deposit.title}],
        "publisher": {"name": publication.publisher or publication.institution or _UNKNOWN},
        "publicationYear": deposit.created[:4],
        "dates": [{"date": deposit.created, "dateType": "Created"}],
        "subjects": [{"subject": word} for word in deposit.keywords],
        "descriptions": [{"description": text, "descriptionType": kind} for kind, text in descriptions.items() if text],
        "rightsList": [rights],
        "formats": ["application/x-netcdf"],
        "language": "en",
        "schemaVersion": "http://datacite.org/schema/kernel-4",  # the one identifier of all schemas 4.x
    }
    return record | ({"doi": publication.doi} if publication.doi else {})


def write_crate(deposit: Deposit, folder: Path) -> None:
    """Write the metadata file of a folder that holds all other files of the deposit."""
    from rocrate.model import ContextEntity
    from rocrate.rocrate import ROCrate

    crate, publication = ROCrate(version="1.2"), deposit.publication

    def add(identifier: str, properties: Entity) -> Entity:
        known = {name: value for name, value in properties.items() if value}
        return {"@id": crate.add(ContextEntity(crate, identifier, known)).id}

    version = deposit.studies[0].attributes.get("product_version", "unknown")
    add("#evogt-study", {**LANGUAGE, "version": version})
    python = {"@type": "ComputerLanguage", "name": "Python", "url": "https://www.python.org/"}
    add("#python", {**python, "version": deposit.studies[0].versions.get("python", "unknown")})
    described = _describe_files(deposit)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        known = {"name": name, **described.get(name, {}), "encodingFormat": MEDIA_TYPES.get(path.suffix)}
        properties = {key: value for key, value in known.items() if value}
        crate.add_file(path, dest_path=name, properties=properties, record_size=True)
    terms = {"@type": "CreativeWork", "name": publication.license, "description": "terms of use of the results"}
    publisher = {"@type": "Organization", "name": publication.publisher}
    known = {
        "name": deposit.title,
        "description": deposit.description,
        "datePublished": deposit.created,
        "license": add(deposit.license_address, terms),
        "author": _one_or_list(_add_creator(add, each, i) for i, each in enumerate(publication.creators, 1)),
        "publisher": add("#publisher", publisher) if publication.publisher else None,
        "identifier": f"https://doi.org/{publication.doi}" if publication.doi else None,
        "keywords": ", ".join(deposit.keywords),
        "conformsTo": [
            add(profile, {"@type": ["CreativeWork", "Profile"], "name": name, "version": number})
            for profile, (name, number) in PROFILES.items()
        ],
        "mainEntity": _refer(deposit.studies[0].text),
        "mentions": _one_or_list(add(f"#run-{quote(each.name)}", _describe_run(each)) for each in deposit.studies),
    }
    for name, value in known.items():
        if value:
            crate.root_dataset[name] = value
    crate.write(folder)


def _describe_files(deposit: Deposit) -> dict[str, Entity]:
    """Return properties of files by their path."""
    found: dict[str, Entity] = {name: {"description": text} for name, text in COMMON_FILES.items()}
    for study in deposit.studies:
        runs = "; ".join(f"{phase}: {counts}" for phase, counts in study.runs.items())
        found[study.result] = {"name": f"Result: {study.title}", "description": runs}
        found[study.text] = {
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
            "name": study.title,
            "description": study.attributes.get("source") or "the study: method, axes and constants",
            "programmingLanguage": {"@id": "#evogt-study"},
        }
        for name in study.beside:
            code = {"@type": ["File", "SoftwareSourceCode"], "programmingLanguage": {"@id": "#python"}}
            entity = {"name": name, "description": "file that the runs of the study need"}
            found[f"studies/{study.name}/{name}"] = {**(code if name.endswith(".py") else {}), **entity}
        page = {"name": f"Report: {study.title}", "description": "report page", "isBasedOn": _refer(study.result)}
        found[study.page] = page
        found[study.lock] = {"name": f"Environment of {study.name}", "description": "packages for pip"}
    return found


def _describe_run(study: DepositedStudy) -> Entity:
    """Return the computation of one study, as its result records it: the end, not the beginning or the person."""
    inputs = [study.lock, *(f"studies/{study.name}/{name}" for name in study.beside)]
    return {
        "@type": "CreateAction",
        "name": f"Computation of {study.title}",
        "description": study.attributes.get("history", ""),
        "endTime": study.attributes["date_created"],
        "instrument": _refer(study.text),
        "object": _one_or_list(map(_refer, inputs)),
        "result": _refer(study.result),
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }


def _refer(path: str) -> Entity:
    """Return a reference to a file."""
    return {"@id": quote(path)}


def _one_or_list(entities: Iterable[Entity]) -> Any:
    """Return references, a single one without a list (RO-Crate 1.2, on compact JSON-LD)."""
    found = list(entities)
    return found[0] if len(found) == 1 else found


def _split_name(creator: CreatorTable) -> tuple[str, str] | None:
    """Return family and given name of a person, or None for an organisation, whose name has no comma."""
    family, comma, given = creator.name.partition(",")
    return (family.strip(), given.strip()) if comma else None


def _cff_author(creator: CreatorTable) -> dict[str, str]:
    """Return an author of CITATION.cff: a person or an entity."""
    parts = _split_name(creator)
    known = {"name": creator.name} if parts is None else {"family-names": parts[0], "given-names": parts[1]}
    known |= {
        "orcid": ORCID + creator.orcid if creator.orcid else "",
        "affiliation": creator.affiliation if parts else "",  # of a person only
        "email": creator.email,
    }
    return {name: text for name, text in known.items() if text}


def _datacite_creator(creator: CreatorTable) -> dict[str, Any]:
    """Return a creator of DataCite 4.5."""
    parts = _split_name(creator)
    found: dict[str, Any] = {"name": creator.name, "nameType": "Organizational" if parts is None else "Personal"}
    if parts is not None:
        found |= {"familyName": parts[0], "givenName": parts[1]}
    if creator.affiliation:
        found["affiliation"] = [{"name": creator.affiliation}]
    if creator.orcid:
        scheme = {"nameIdentifierScheme": "ORCID", "schemeUri": ORCID}
        found["nameIdentifiers"] = [{"nameIdentifier": ORCID + creator.orcid, **scheme}]
    return found


def _add_creator(add: Callable[[str, Entity], Entity], creator: CreatorTable, number: int) -> Entity:
    """Add a Person or an Organization of schema.org, identified by the ORCID iD if there is one."""
    parts, affiliation = _split_name(creator), None
    if creator.affiliation:
        affiliation = add(f"#affiliation-{number}", {"@type": "Organization", "name": creator.affiliation})
    known = {
        "@type": "Organization" if parts is None else "Person",
        "name": creator.name if parts is None else f"{parts[1]} {parts[0]}",
        "familyName": parts[0] if parts else "",
        "givenName": parts[1] if parts else "",
        "affiliation": affiliation,
        "email": creator.email,
    }
    return add(ORCID + creator.orcid if creator.orcid else f"#creator-{number}", known)

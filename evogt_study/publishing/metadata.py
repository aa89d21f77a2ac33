"""Metadata of a deposit for other programs.

`citation` writes CITATION.cff, `datacite` the record for a DOI (DataCite 4.5), and `ro_crate` the description of each
file and of the run that made it (RO-Crate 1.2, Workflow Run Crate 0.5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from evogt_study.publishing.contents import SPDX, Deposit, DepositedStudy
from evogt_study.study.model import ORCID, CreatorTable

UNKNOWN = "(:unav)"
"""Value of DataCite for an unknown entry (schema 4.5, appendix 3), which the repository fills in."""
METADATA = "ro-crate-metadata.json"
CRATE = "https://w3id.org/ro/crate/1.2"
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
"""Profiles of the crate.  The second extends the others and requires their names."""
FORMATS = {
    ".nc": "application/x-netcdf",
    ".toml": "application/toml",
    ".py": "text/x-python",
    ".html": "text/html",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".cff": "application/yaml",
    ".json": "application/json",
}
"""Media types by suffix.  Files with other suffixes get none."""
LANGUAGE = {
    "@id": "#evogt-study",
    "@type": ["ComputerLanguage", "SoftwareApplication"],
    "name": "evogt-study",
    "description": "Study files: TOML that states a parametric study, which `evogt run` computes.",
    "url": "https://pypi.org/project/evogt-study/",
}
PYTHON = {"@id": "#python", "@type": "ComputerLanguage", "name": "Python", "url": "https://www.python.org/"}
OF_ALL = {
    "README.md": "what is here, how to read it, check it and compute it again",
    "CITATION.cff": "how to cite it",
    "datacite.json": "the record from which a DOI is registered",
}
Entity = Mapping[str, Any]


def citation(deposit: Deposit) -> str:
    """Return the text of CITATION.cff.  Strings are JSON, which YAML includes, so that no text acts as YAML."""
    publication = deposit.publication
    address = "://" in publication.license
    known: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "If you use these results, please cite them.",
        "type": "dataset",
        "title": deposit.title,
        "abstract": deposit.description,
        "authors": [cff_author(each) for each in publication.creators],
        "date-released": deposit.created,
        "license-url" if address else "license": publication.license,  # `license` takes identifiers of SPDX alone
        "keywords": deposit.keywords,
        "doi": publication.doi,
    }
    return "\n".join(line for name, value in known.items() if value for line in _lines(name, value)) + "\n"


def _lines(name: str, value: Any) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{name}: {_quoted(value)}"
        return
    yield f"{name}:"
    for each in value:
        items = [f"{key}: {_quoted(text)}" for key, text in each.items()] if isinstance(each, Mapping) else None
        for number, line in enumerate(items or [_quoted(each)]):
            yield f"  {'-' if number == 0 else ' '} {line}"


def _quoted(text: str) -> str:
    # in ASCII: YAML ends lines at characters at which JSON does not; eight digits: JSON has two escapes beyond 16 bits
    return re.sub(r"[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", json.dumps(text, ensure_ascii=False))


def datacite(deposit: Deposit) -> dict[str, Any]:
    """The record of a deposit, of type Dataset."""
    publication = deposit.publication
    rights = {"rights": publication.license, "rightsUri": deposit.license_address}
    if "://" not in publication.license:
        rights |= {"rightsIdentifier": publication.license, "rightsIdentifierScheme": "SPDX", "schemeUri": SPDX}
    descriptions = {"Abstract": deposit.description, "Other": publication.references}  # free text: no relatedIdentifier
    record: dict[str, Any] = {
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": "Results of parametric studies"},
        "creators": [datacite_creator(each) for each in publication.creators],
        "titles": [{"title": deposit.title}],
        "publisher": {"name": publication.publisher or publication.institution or UNKNOWN},
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


def ro_crate(deposit: Deposit, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the metadata file; sizes: bytes of every other file of the deposit by its path."""
    described = {each["@id"]: each for study in deposit.studies for each in _files(study)}
    described |= {each["@id"]: each for each in _shared(deposit)}
    described |= {_id(path): {"@id": _id(path), "name": path, "description": text} for path, text in OF_ALL.items()}
    files = [_file(path, size, described.get(_id(path), {})) for path, size in sorted(sizes.items())]
    people = [crate_entity(each, number) for number, each in enumerate(deposit.publication.creators, 1)]
    graph = [
        {"@id": METADATA, "@type": "CreativeWork", "conformsTo": {"@id": CRATE}, "about": {"@id": "./"}},
        _root(deposit, files, people),
        *files,
        *(_action(study) for study in deposit.studies),
        {**LANGUAGE, "version": deposit.studies[0].attributes.get("product_version", "unknown")},
        {**PYTHON, "version": deposit.studies[0].versions.get("python", "unknown")},
        *people,
        *_around(deposit),
    ]
    return {"@context": f"{CRATE}/context", "@graph": graph}


def _root(deposit: Deposit, files: Iterable[Entity], people: Iterable[Entity]) -> Entity:
    publication = deposit.publication
    known = {
        "@id": "./",
        "@type": "Dataset",
        "name": deposit.title,
        "description": deposit.description,
        "datePublished": deposit.created,
        "license": {"@id": deposit.license_address},
        "author": _references(people),
        "publisher": {"@id": "#publisher"} if publication.publisher else None,
        "identifier": f"https://doi.org/{publication.doi}" if publication.doi else None,
        "keywords": ", ".join(deposit.keywords),
        "conformsTo": [{"@id": profile} for profile in PROFILES],
        "mainEntity": {"@id": _id(deposit.studies[0].text)},
        "mentions": _references(map(_action, deposit.studies)),
        "hasPart": _references(files),
    }
    return {name: value for name, value in known.items() if value}


def _files(study: DepositedStudy) -> Iterator[Entity]:
    """Entities that describe each file of a study."""
    yield {
        "@id": _id(study.text),
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"],
        "name": study.title,
        "description": study.attributes.get("source") or "the study: which runs, with which parameters",
        "programmingLanguage": {"@id": LANGUAGE["@id"]},
    }
    result = "; ".join(f"{phase}: {counts}" for phase, counts in study.runs.items())
    yield {"@id": _id(study.result), "name": f"Result: {study.title}", "description": result}
    for name in study.beside:
        path = f"studies/{study.name}/{name}"
        code = {"@type": ["File", "SoftwareSourceCode"], "programmingLanguage": {"@id": PYTHON["@id"]}}
        entity = {"name": name, "description": "needed by the runs of the study"}
        yield {"@id": _id(path), **(code if name.endswith(".py") else {}), **entity}


def _shared(deposit: Deposit) -> Iterator[Entity]:
    """Yield entities of files that several studies may share: pages, and lists of packages."""
    for page, studies in _users(deposit, "page"):
        results = _references({"@id": _id(study.result)} for study in studies)
        title = f"{studies[0].title} and {len(studies) - 1} more" if len(studies) > 1 else studies[0].title
        yield {"@id": _id(page), "name": f"Report: {title}", "description": "on one page", "isBasedOn": results}
    for lock, studies in _users(deposit, "lock"):
        names = ", ".join(study.name for study in studies)
        yield {"@id": _id(lock), "name": f"Environment of {names}", "description": "packages for pip"}


def _users(deposit: Deposit, kind: str) -> Iterator[tuple[str, list[DepositedStudy]]]:
    """Yield each file of one kind with its studies."""
    for path in dict.fromkeys(getattr(study, kind) for study in deposit.studies):
        yield path, [study for study in deposit.studies if getattr(study, kind) == path]


# a string: contentSize is text in schema.org
def _file(path: str, size: int, described: Entity) -> Entity:
    suffix = path[path.rfind(".") :]
    form = {"encodingFormat": FORMATS[suffix]} if suffix in FORMATS else {}
    return {"@id": _id(path), "@type": "File", "name": path, **described, **form, "contentSize": str(size)}


def _action(study: DepositedStudy) -> Entity:
    """The computation of one study, as far as its result records it: when it ended, not when it began or by whom."""
    inputs = [study.lock, *(f"studies/{study.name}/{name}" for name in study.beside)]
    return {
        "@id": f"#run-{quote(study.name)}",
        "@type": "CreateAction",
        "name": f"Computation of {study.title}",
        "description": study.attributes.get("history", ""),
        "endTime": study.attributes["date_created"],
        "instrument": {"@id": _id(study.text)},
        "object": _references({"@id": _id(path)} for path in inputs),
        "result": {"@id": _id(study.result)},
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }


def _around(deposit: Deposit) -> Iterator[Entity]:
    """Yield entities that others refer to: licence, publisher, affiliations and profiles."""
    publication = deposit.publication
    yield {"@id": deposit.license_address, "@type": "CreativeWork", "name": publication.license,
           "description": "the terms on which the results may be used"}  # fmt: skip
    if publication.publisher:
        yield {"@id": "#publisher", "@type": "Organization", "name": publication.publisher}
    for number, creator in enumerate(publication.creators, 1):
        if creator.affiliation:
            yield {"@id": f"#affiliation-{number}", "@type": "Organization", "name": creator.affiliation}
    for profile, (name, version) in PROFILES.items():
        yield {"@id": profile, "@type": ["CreativeWork", "Profile"], "name": name, "version": version}


def _references(entities: Iterable[Entity]) -> Any:
    """References to entities, to one of them alone without a list (RO-Crate 1.2, on compact JSON-LD)."""
    found = [{"@id": each["@id"]} for each in entities]
    return found[0] if len(found) == 1 else found


def _id(path: str) -> str:
    """The identifier of a file: its path as part of an address."""
    return quote(path)


def family_and_given(creator: CreatorTable) -> tuple[str, str] | None:
    """The two parts of a person's name; None for an organisation, whose name has no comma."""
    family, comma, given = creator.name.partition(",")
    return (family.strip(), given.strip()) if comma else None


def cff_author(creator: CreatorTable) -> dict[str, str]:
    """An author of CITATION.cff: a person or an entity."""
    parts = family_and_given(creator)
    named = {"name": creator.name} if parts is None else {"family-names": parts[0], "given-names": parts[1]}
    known = {
        **named,
        "orcid": ORCID + creator.orcid if creator.orcid else "",
        "affiliation": creator.affiliation if parts else "",  # of a person only
        "email": creator.email,
    }
    return {name: text for name, text in known.items() if text}


def datacite_creator(creator: CreatorTable) -> dict[str, Any]:
    """A creator of DataCite 4.5."""
    parts = family_and_given(creator)
    found: dict[str, Any] = {"name": creator.name, "nameType": "Organizational" if parts is None else "Personal"}
    if parts is not None:
        found |= {"familyName": parts[0], "givenName": parts[1]}
    if creator.affiliation:
        found["affiliation"] = [{"name": creator.affiliation}]
    if creator.orcid:
        scheme = {"nameIdentifierScheme": "ORCID", "schemeUri": ORCID}
        found["nameIdentifiers"] = [{"nameIdentifier": ORCID + creator.orcid, **scheme}]
    return found


def crate_entity(creator: CreatorTable, number: int) -> dict[str, Any]:
    """A Person or an Organization of schema.org, known by ORCID iD where there is one."""
    parts = family_and_given(creator)
    known = {
        "@id": ORCID + creator.orcid if creator.orcid else f"#creator-{number}",
        "@type": "Organization" if parts is None else "Person",
        "name": creator.name if parts is None else f"{parts[1]} {parts[0]}",
        "familyName": parts[0] if parts else "",
        "givenName": parts[1] if parts else "",
        "affiliation": {"@id": f"#affiliation-{number}"} if creator.affiliation else "",
        "email": creator.email,
    }
    return {name: value for name, value in known.items() if value}

"""Creators of a deposit, as the formats have them."""

from __future__ import annotations

from typing import Any

from evogt_study.study.model import ORCID, CreatorTable


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

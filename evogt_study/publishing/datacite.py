"""The record from which a repository registers a DOI (DataCite metadata schema 4.5, as JSON)."""

from __future__ import annotations

from typing import Any

from evogt_study.publishing.contents import SPDX, Deposit
from evogt_study.publishing.people import datacite_creator

UNKNOWN = "(:unav)"
"""DataCite's own value for what is not known yet (schema 4.5, appendix 3): the repository fills it in."""


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

"""The section that says who made the results of a study, as attributes of a result (ACDD 1.3)."""

from __future__ import annotations

from evogt_study.study.study_file import PublicationTable

ORCID = "https://orcid.org/"
SEPARATOR = "; "
"""Between creators, whose names have commas; ACDD leaves it open."""


def attributes(publication: PublicationTable | None) -> dict[str, str]:
    """Global attributes by the names of ACDD; of several creators each has its place in every list.

    `references` is CF's name, and `doi` is nobody's.
    """
    if publication is None:
        return {}
    creators = publication.creators
    lists = {
        "creator_name": [each.name for each in creators],
        "creator_email": [each.email for each in creators],
        "creator_url": [ORCID + each.orcid if each.orcid else "" for each in creators],
        "creator_institution": [each.affiliation for each in creators],
    }
    single = {
        "license": publication.license,
        "institution": publication.institution,
        "publisher_name": publication.publisher,
        "project": publication.project,
        "acknowledgement": publication.acknowledgement,
        "references": publication.references,
        "doi": publication.doi or "",
    }
    joined = {name: SEPARATOR.join(values) for name, values in lists.items() if any(values)}
    return joined | {name: value for name, value in single.items() if value}

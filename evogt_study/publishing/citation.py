"""CITATION.cff of a deposit (Citation File Format 1.2.0)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from evogt_study.publishing.contents import Deposit
from evogt_study.publishing.people import cff_author


def citation(deposit: Deposit) -> str:
    """Text of the file.  YAML holds JSON, so that no text of a study can be taken for YAML's own signs."""
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

"""Identifiers of people, works and licences, checked for their form; nothing is looked up."""

from __future__ import annotations

import re

_ORCID = re.compile(r"(\d{4}-){3}\d{3}[\dX]", re.ASCII)
# a prefix has 4 to 9 digits in Crossref's pattern; ASCII, since \d is a digit of any script else
_DOI = re.compile(r"10\.\d{4,9}/\S+", re.ASCII)
_LICENSE = re.compile(r"[A-Za-z0-9.+-]+|https?://\S+")


def checked_orcid(text: str) -> str:
    """Return an ORCID iD.  Raises ValueError where its form or its last character, a check (ISO 7064), is wrong."""
    digits = text.replace("-", "")
    if _ORCID.fullmatch(text) is None or digits[-1] != _orcid_check(digits[:-1]):
        raise ValueError("an ORCID iD such as 0000-0002-1825-0097, whose last character checks the others")
    return text


def _orcid_check(digits: str) -> str:
    """Last character of an ORCID iD: MOD 11-2 of ISO/IEC 7064."""
    total = 0
    for digit in digits:
        total = (total + int(digit)) * 2
    check = (12 - total % 11) % 11
    return "X" if check == 10 else str(check)


def checked_doi(text: str) -> str:
    """Return a DOI.  Raises ValueError for what has not the form of one."""
    if _DOI.fullmatch(text) is None:
        raise ValueError("a DOI such as 10.5281/zenodo.1234567, without https://doi.org/")
    return text


def checked_license(text: str) -> str:
    """Return the identifier or address of a licence.  Raises ValueError for what has the form of neither."""
    if _LICENSE.fullmatch(text) is None:
        raise ValueError("an identifier of SPDX such as CC-BY-4.0, or an address that begins with https://")
    return text

"""Identifiers of people and works, checked for their form, and of licences, held against the list of SPDX.

Nothing is looked up elsewhere.
"""

from __future__ import annotations

import re

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

_ORCID = re.compile(r"(\d{4}-){3}\d{3}[\dX]", re.ASCII)
# a prefix has 4 to 9 digits in Crossref's pattern; ASCII, since \d is a digit of any script else
_DOI = re.compile(r"10\.\d{4,9}/\S+", re.ASCII)
_ADDRESS = re.compile(r"https?://\S+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9.+-]+")  # of one licence: expressions of several have no address


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
    """Return the identifier, as SPDX writes it, or the address of a licence.  Raises ValueError for what is neither."""
    if _ADDRESS.fullmatch(text):
        return text
    try:
        if _IDENTIFIER.fullmatch(text):
            return canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        pass
    raise ValueError("an identifier of SPDX such as CC-BY-4.0, or an address that begins with https://")

"""Names that nothing of a user's own can have in a result file: those with a use there, and what NetCDF cannot hold.

A file with one of them cannot be written, or is read back wrongly, when all runs are done: so they are refused before.
"""

from __future__ import annotations

import re

from evogt_study.schema.variables import BOOKKEEPING, CANDIDATE

PILOT = "pilot"
EARLIER_PHASES = (PILOT,)
"""Names of the phases that a study may have before its last: in a result each is a group."""
TAKEN = frozenset({*BOOKKEEPING, CANDIDATE, *EARLIER_PHASES, "bound"})  # bound: of intervals in summaries
"""Names that the result file, or a summary of it, has a use for."""
TAKEN_REASON = "the result file uses this one"
LONGEST_NAME = 240
"""Bytes of a name in UTF-8.  NC_MAX_NAME is 256; netCDF4 reads no more than 255, and `OWN_VALUES` may be appended."""
HDF5_ATTRIBUTES = frozenset({"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"})
"""Attributes in which HDF5 keeps dimensions."""


def objection(name: str) -> str | None:
    """Why a variable, coordinate, dimension or parameter must have another name; None where it may have this one."""
    if name in TAKEN:
        return TAKEN_REASON
    if re.fullmatch(r"string\d+", name):
        return "xarray gives this one to the characters of strings"
    if name.startswith("_nc4_non_coord_"):
        return "NetCDF reads this one back without its beginning"
    if len(name.encode()) > LONGEST_NAME:
        return f"the result file has room for {LONGEST_NAME} bytes"
    return None


def holds_attribute(name: str) -> bool:
    """True where an attribute of this name can be written; an underscore at the beginning is for NetCDF's own."""
    return not name.startswith("_") and name not in HDF5_ATTRIBUTES and len(name.encode()) <= LONGEST_NAME

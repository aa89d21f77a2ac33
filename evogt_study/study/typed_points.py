"""Points and lists as a user writes and reads them.  Imports nothing heavy, since the command line begins with it."""

from __future__ import annotations

from collections.abc import Sequence

from evogt_study.errors import InputError


def listed(values: Sequence[str], limit: int = 12) -> str:
    """Join strings by commas, those beyond `limit` counted."""
    more = f", ... ({len(values)} in all)" if len(values) > limit else ""
    return ", ".join(values[:limit]) + more


def read_point(text: str) -> dict[str, str]:
    """`seed=3,dictionary=gtransnet` as names and values; a value may have commas of its own: `hidden=240,120`.

    Raises InputError.
    """
    at: dict[str, str] = {}
    name = ""
    for part in filter(None, (part.strip() for part in text.split(","))):
        before, sign, value = (word.strip() for word in part.partition("="))
        if sign and before in at:
            raise InputError(f"`--at` must name each axis once, got {before} twice")
        if sign:
            name, at[before] = before, value
        elif name:
            at[name] += f",{part}"
        else:
            raise InputError(f"`--at` must read axis=value,axis=value, got {text!r}; use e.g. --at seed=3")
    return at

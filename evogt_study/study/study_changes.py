"""Differences of two states of a study, named by the lines that changed."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from evogt_study.errors import shortened

# a line of a terminal, which is where they are read
MOST = 4
"""Changes that are named; more would not be read on one line."""


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return what differs, on one line: "constants.gamma: 2 -> 3".

    before, after: the text under "study", what the study's own Python file declares under "code", and the package's
    version under "version".  Where nothing of that differs, it is the pilot that chose otherwise.
    """
    found = list(itertools.chain(_lines(before["study"], after["study"]), _others(before, after)))
    return "; ".join(found[:MOST]) + (f"; {len(found) - MOST} more" if len(found) > MOST else "")


def _others(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    if before.get("code") != after.get("code"):
        yield "code of the method"
    elif before["study"] == after["study"] and before.get("version") != after.get("version"):
        yield f"evogt-study {before.get('version')} -> {after.get('version')}"
    elif before["study"] == after["study"]:
        yield "choice of the pilot"


def _lines(before: str, after: str) -> Iterator[str]:
    try:
        old, new = (dict(_flat(tomllib.loads(text))) for text in (before, after))
    except (ValueError, RecursionError):  # of a result that another program has changed
        yield "the study's text"
        return
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            yield f"{name} = {shortened(old[name])} removed"
        elif name not in old:
            yield f"{name} = {shortened(new[name])} added"
        elif old[name] != new[name]:
            yield f"{name}: {shortened(old[name])} -> {shortened(new[name])}"


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its dotted name; tables of a list are numbered from 1."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            yield from _flat({str(number): each for number, each in enumerate(value, 1)}, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

"""Samples that cannot be made larger: what a study asks for, held against what its result was made of."""

from __future__ import annotations

import tomllib
from typing import Any

from evogt_study.study.designs.place import Place

FIXED = "latin_hypercube"
"""The rule whose points belong to their number: each has an interval of its own in every direction."""


def check_growth(before: str, after: str, file: str) -> None:
    """Raise StudyError where a Latin hypercube of `before`, a study's text, has another number of points in `after`.

    With ``extend = true`` it may be doubled, and halved.
    """
    known = {each.get("name"): each for each in _samples(before)}
    for number, sample in enumerate(_samples(after)):
        old = known.get(sample.get("name"), {})
        if _same_but_for_count(old, sample) and old.get("count") != sample.get("count"):
            _check(old["count"], sample, Place(file, f"sample[{number}].count"))


def _check(old: int, sample: dict[str, Any], place: Place) -> None:
    few, many = sorted((old, sample["count"]))
    nested = many % few == 0 and (many // few).bit_count() == 1
    if not sample.get("extend"):
        wanted = f"{old} as in the result, since the points of a Latin hypercube belong to their number"
        raise place.mistake(wanted, sample["count"], "extend = true doubles it and keeps them, or -o begins another")
    if not nested:
        wanted = f"{old} times a power of two, as in the result, since a nested Latin hypercube is doubled"
        raise place.mistake(wanted, sample["count"], f"use {2 * old}")


def _samples(text: str) -> list[dict[str, Any]]:
    try:
        found = tomllib.loads(text).get("sample", [])
    except (ValueError, RecursionError):  # of a result that another program has changed
        return []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _same_but_for_count(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return True where the same hypercube would be drawn, but for the number of its points."""
    free = ("count", "extend")
    same = {k: v for k, v in one.items() if k not in free} == {k: v for k, v in other.items() if k not in free}
    return same and other.get("rule") == FIXED

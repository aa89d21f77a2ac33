"""Map the run keys of an older version of the user's code to the keys of today."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from evogt_study.errors import ResultError, StudyError
from evogt_study.methods.code import DeclaredCode, UserCode
from evogt_study.schema.records import RunRecords
from evogt_study.schema.values import canonical_json
from evogt_study.study.plan import Plan
from evogt_study.study.run_keys import Keys

OLDER = "older_code"
"""Entry of a version set: the older code that computed the run."""


@dataclass(eq=False)
class OlderCodeKeys:
    """Keys of today, by the keys of the same cases with older code.

    declaration: text that a result holds of the older code; empty if its runs are not wanted.
    """

    declaration: str = ""
    _now_of: dict[str, str] = field(default_factory=dict)
    _mark: str = ""

    def add(self, plan: Plan) -> None:
        """Add the keys of the plan's cases.  Raises ResultError if the declaration lacks a part of its code."""
        if not self.declaration or not plan.spec.codes:
            return
        older = replace(plan, spec=plan.spec.with_codes(self._older))
        self._mark = ", ".join(f"{code.reference} {_short(code)}" for code in older.spec.codes)
        before, now = (keys.astype(str).tolist() for keys in (older.keys, plan.keys))
        self._now_of |= {old: new for old, new in zip(before, now, strict=True) if old != new}

    def _older(self, code: UserCode) -> UserCode:
        try:
            known = DeclaredCode.of(code.reference, Path(), self.declaration)
        except StudyError as error:
            raise ResultError(f"no runs of older code can be reused: {error}") from None
        return replace(code, stands_for=canonical_json(known.identity))

    def now(self, keys: Sequence[str] | Keys) -> Keys:
        """Return the keys of today; keys of other cases stay as they are."""
        given = np.asarray(keys, dtype=np.bytes_)
        if not self._now_of:
            return given
        return np.array([self._now_of.get(key, key) for key in given.astype(str).tolist()], dtype=np.bytes_)

    def renamed(self, records: RunRecords) -> RunRecords:
        """Return the records with the keys of today; `software` marks the runs of older code."""
        if not self._now_of:
            return records
        software = tuple(map(self._software, records.keys, records.software))
        return replace(records, keys=tuple(self._now_of.get(key, key) for key in records.keys), software=software)

    def _software(self, key: str, text: str) -> str:
        return json.dumps({**json.loads(text), OLDER: self._mark}, sort_keys=True) if key in self._now_of else text


def _short(code: UserCode) -> str:
    return str(next(iter(code.identity.values())))[:12]

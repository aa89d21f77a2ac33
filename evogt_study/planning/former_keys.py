"""Runs of a study's own code that earlier results know by other keys: those of an older form, or of former code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evogt_study.errors import ResultError, StudyError
from evogt_study.methods.own.user_code import DeclaredCode, UserCode
from evogt_study.methods.protocol import MethodSpec
from evogt_study.planning.case_keys import Keys
from evogt_study.planning.plan import Plan
from evogt_study.schema.records import RunRecords
from evogt_study.schema.values import canonical_json

Knows = Callable[[Keys], npt.NDArray[np.bool_]]
"""Marks those of several keys that cases have now."""
FORMER = "former_code"
"""Entry of a version set: the code that computed a run, where another one is here now."""


@dataclass(eq=False)
class FormerKeys:
    """The keys that cases had, and have now.  kept: declaration of former code whose runs are to be taken."""

    kept: str = ""
    _asked_for: list[Knows] = field(default_factory=list)
    _waiting: list[Plan] = field(default_factory=list)
    _now_of: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, plan: Plan, knows: Knows) -> None:
        """Look for runs of the plan's cases, too, whose keys it `knows`."""
        if plan.spec.codes:
            self._asked_for.append(knows)
            self._waiting.append(plan)

    def known(self) -> dict[str, tuple[str, str]]:
        """Former keys, with the ones that they are now and a mark for the version set; made when they are asked for."""
        while self._waiting:
            plan = self._waiting.pop()
            for spec, mark in self._specs(plan.spec):
                now, before = (keys.astype(str).tolist() for keys in (plan.keys, replace(plan, spec=spec).keys))
                for new, old in zip(now, before, strict=True):
                    if old and old != new:
                        self._now_of.setdefault(old, (new, mark))
        return self._now_of

    def _are_of_now(self, keys: Keys) -> bool:
        """True where cases have all the keys as they are: as a rule, and then no others are made."""
        if not self._asked_for:
            return True
        return bool(np.any([knows(keys) for knows in self._asked_for], axis=0).all())

    def _specs(self, spec: MethodSpec) -> Iterator[tuple[MethodSpec, str]]:
        if all(code.former for code in spec.codes):
            yield spec.with_codes(lambda code: code.former or code), ""
        if self.kept:
            former = spec.with_codes(lambda code: _with_identity(code, self.kept))
            yield former, ", ".join(f"{code.reference} {_short(code)}" for code in former.codes)

    def now(self, keys: Sequence[str] | Keys) -> Keys:
        """The keys of today's code."""
        given = np.asarray(keys, dtype=np.bytes_)
        if self._are_of_now(given):
            return given
        known = self.known()
        return np.array([known[key][0] if key in known else key for key in given.astype(str).tolist()], dtype=np.bytes_)

    def renamed(self, records: RunRecords) -> RunRecords:
        """The records by the keys of today's code; those of other code are marked in `software`."""
        if self._are_of_now(np.array(records.keys, dtype=np.bytes_)):
            return records
        known = self.known()
        marks = [known[key][1] if key in known else "" for key in records.keys]
        software = [_marked(text, mark) for text, mark in zip(records.software, marks, strict=True)]
        return replace(records, keys=tuple(self.now(records.keys).astype(str).tolist()), software=tuple(software))


def _short(code: UserCode) -> str:
    return str(next(iter(code.identity.values())))[:12]


def _marked(software: str, mark: str) -> str:
    return json.dumps({**json.loads(software), FORMER: mark}, sort_keys=True) if mark else software


def _with_identity(code: UserCode, declared: str) -> UserCode:
    """The code with the identity that was declared.  Raises ResultError where none was."""
    try:
        known = DeclaredCode.of(code.reference, Path(), declared)
    except StudyError as error:
        raise ResultError(f"no runs of former code can be kept: {error}") from None
    return replace(code, stands_for=canonical_json(known.identity))

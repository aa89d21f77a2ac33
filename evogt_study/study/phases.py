"""The phases of a study: plans over axes, run one after the other, of which the earlier decide about the later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from evogt_study.schema.values import Value, text_label
from evogt_study.study.case_space import CaseSpace, Chosen
from evogt_study.study.precision import Precision

STUDY = "study"
"""The name of the last phase, whose runs are the study's own."""


Candidate = tuple[Value, ...]
"""A value for each parameter that is chosen."""


def in_words(words: Iterable[Value]) -> str:
    """Parameters, or a candidate's values, in words: "6 and 40"."""
    return " and ".join(map(text_label, words))


# a protocol, since results and operations only ask for this, and need not know the pilot
class Choice(Protocol):
    """Parameters that the finished runs of a phase choose together for the phases after it."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that are chosen."""

    @property
    def minimise(self) -> str:
        """The variable of the phase's runs that decides."""

    @property
    def by(self) -> tuple[str, ...]:
        """The axes over which the choice is a table."""

    def candidates_at(self, key: tuple[str, ...]) -> tuple[Candidate, ...]:
        """The candidates at a point of `by`, given by its labels."""

    def first_candidates(self, space: CaseSpace) -> Chosen:
        """A stand-in for the choice, to look at a later phase's `space` before this one has run."""


@dataclass(frozen=True, eq=False)
class Phase:
    """Cases that are computed together; choice: what they decide, None where they are results and no more.

    precision: how well a number is to be known in each cell, whose seeds are then those it needs of the space's; None:
    all of them.  `space` lacks what earlier phases choose.
    """

    name: str
    space: CaseSpace
    choice: Choice | None = None
    precision: Precision | None = None

    @property
    def deciding(self) -> tuple[str, ...]:
        """Variables of its runs that decide about later ones."""
        chosen = () if self.choice is None else (self.choice.minimise,)
        return chosen if self.precision is None else (*chosen, self.precision.variable)

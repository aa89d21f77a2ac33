"""The ``[pilot]`` section read into a `Pilot`: what is to be chosen, from what, and the cases that decide it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evogt_study.errors import StudyError, shortened
from evogt_study.schema.values import Value, text_label
from evogt_study.schema.variables import CANDIDATE
from evogt_study.study.case_space import MAX_CASES, Axis, CaseSpace, Chosen, Points
from evogt_study.study.declared_values import Declared
from evogt_study.study.phases import Candidate
from evogt_study.study.study_file import PilotTable


@dataclass(frozen=True, eq=False)
class Pilot:
    """Choice of `parameters` on seeds that the study never uses: the candidate with the least mean of `minimise`.

    The mean is taken over the pilot seeds, and over axes that are not in `by`.  A candidate is a value for each of the
    parameters; `candidates` is keyed by the labels of the first of `by`, or by None where there is one list for all.
    `space` holds the pilot's cases: the study's axes, the candidate, and the pilot's seeds.
    """

    parameters: tuple[str, ...]
    minimise: str
    by: tuple[str, ...]
    candidates: Mapping[str | None, tuple[Candidate, ...]]
    space: CaseSpace

    def candidates_at(self, key: tuple[str, ...]) -> tuple[Candidate, ...]:
        """The candidates at a point of `by`, given by its labels."""
        return self.candidates[None if None in self.candidates else key[0]]

    def first_candidates(self, space: CaseSpace) -> Chosen:
        """A stand-in for the choice, to look at the study's `space` before the pilot has run."""
        labels = [[text_label(value) for value in space.axis(name).values] for name in self.by]
        table = {key: self.candidates_at(key)[0] for key in itertools.product(*labels)}
        return Chosen(self.parameters, self.by, table)


def read_pilot(table: PilotTable, space: CaseSpace, declared: Declared) -> Pilot:
    """Check the section against the study's `space`.  Raises StudyError."""
    file = declared.file
    _check(table, space, declared)
    candidates = _candidates(table, space, declared)
    seeds = declared.values("seed", table.seed_values, "pilot.seeds")
    # a choice that has seen the study's seeds would make its results look better than those of new seeds
    shared = sorted(set(seeds) & set(space.axis("seed").values), key=str)
    if not seeds or shared:
        got = f"{', '.join(text_label(seed) for seed in shared[:5])} in both" if shared else "none"
        raise StudyError(f"`seeds` of the pilot must be different from the study's, got {got} ({file}, pilot.seeds)")
    pilot_space = _space(table, space, candidates, seeds)
    if pilot_space.size > MAX_CASES:
        raise StudyError(f"a pilot must have at most {MAX_CASES:,} cases, got {pilot_space.size:,} ({file}, pilot)")
    return Pilot(tuple(table.parameters), table.minimise, tuple(table.by), candidates, pilot_space)


def _space(
    table: PilotTable,
    space: CaseSpace,
    candidates: Mapping[str | None, tuple[Candidate, ...]],
    seeds: tuple[Value, ...],
) -> CaseSpace:
    """The study's axes with the candidate's number before the seed, and a table from that number to the candidate."""
    # the candidate's number is the axis, since each point of `by` may have candidates of its own
    # as many as in the longest list: where another is shorter the table has no entry, and there is no case
    numbers = tuple(range(max(len(values) for values in candidates.values())))
    others = tuple(axis for axis in space.axes if axis.name != "seed")
    axes = (*others, Axis(CANDIDATE, numbers, Points()), Axis("seed", seeds))
    over = (CANDIDATE,) if None in candidates else (table.by[0], CANDIDATE)
    entries = {
        (() if key is None else (key,)) + (text_label(number),): candidate
        for key, known in candidates.items()
        for number, candidate in enumerate(known)
    }
    return replace(space, axes=axes, chosen=(Chosen(tuple(table.parameters), over, entries),))


def _check(table: PilotTable, space: CaseSpace, declared: Declared) -> None:
    """Check the section as far as that needs no candidates.  Raises StudyError."""
    some = replace(space, formulas=())  # which may be of what is chosen
    resolved = map(some.resolved, some.representatives())
    first = next((values for values in resolved if values is not None), {})
    file, known = declared.file, declared.method.scalars(first)
    if "seed" not in space.names:
        raise StudyError(f"a pilot must have a study with a `seed` axis, got {', '.join(space.names)} ({file}, axes)")
    outside = [name for name in table.by if name not in space.names or name == "seed"]
    if outside or len(set(table.by)) != len(table.by):
        got = shortened(table.by)
        raise StudyError(f"`by` must name different axes other than seed, got {got} ({file}, pilot.by)")
    _check_parameters(table.parameters, some, declared)
    if known is not None and table.minimise not in known:
        raise StudyError(
            f"`minimise` must be one of {', '.join(known)}, got {shortened(table.minimise)} ({file}, pilot.minimise)"
        )


def _check_parameters(parameters: Sequence[str], space: CaseSpace, declared: Declared) -> None:
    """Raise StudyError unless the parameters to be chosen are different, known, and left to the pilot."""
    if not parameters or len(set(parameters)) != len(parameters):
        where = f"{declared.file}, pilot.parameter"
        raise StudyError(f"`parameter` must name different parameters, got {shortened(parameters)} ({where})")
    given = {"axes": (*space.names, *space.columns), "when": space.followers, "constants": declared.given}
    for parameter in parameters:
        declared.check_name(parameter, "pilot.parameter")
        for section, names in given.items():
            if parameter in names:
                where = f"{declared.file}, {section}.{parameter}"
                raise StudyError(f"`{parameter}` must be left to the pilot, got a value of its own ({where})")


def _candidates(table: PilotTable, space: CaseSpace, declared: Declared) -> dict[str | None, tuple[Candidate, ...]]:
    where = "pilot.candidates"
    if isinstance(table.candidates, list):
        return {None: _candidate_list(table, table.candidates, where, declared)}
    if not table.by:
        raise StudyError(f"`candidates` must be a list where `by` is empty ({declared.file}, {where})")
    axis = space.axis(table.by[0])
    wanted = [text_label(value) for value in axis.values]
    if set(table.candidates) != set(wanted):
        raise StudyError(
            f"`candidates` must have a list for each {axis.name} ({', '.join(wanted)}), "
            f"got {', '.join(table.candidates) or 'none'} ({declared.file}, {where})"
        )
    return {key: _candidate_list(table, raw, f"{where}.{key}", declared) for key, raw in table.candidates.items()}


def _candidate_list(table: PilotTable, raw: list[Any], where: str, declared: Declared) -> tuple[Candidate, ...]:
    if isinstance(table.parameter, str):
        return tuple((value,) for value in _numbers(table.parameter, raw, where, declared))
    names = table.parameters
    if not raw or not all(isinstance(each, list) and len(each) == len(names) for each in raw):
        wanted = f"lists of {len(names)} values, for {', '.join(names)}"
        raise StudyError(f"`candidates` must be {wanted}, got {shortened(raw)} ({declared.file}, {where})")
    columns = [declared.column(name, [each[i] for each in raw], f"{where}.{name}") for i, name in enumerate(names)]
    found = tuple(zip(*columns, strict=True))
    if len({tuple(map(text_label, each)) for each in found}) < len(found):
        raise StudyError(f"`candidates` must be different, got {shortened(raw)} ({declared.file}, {where})")
    return found


# numbers only, since ties go to the smaller candidate, and strings have no size
def _numbers(parameter: str, raw: list[Any], where: str, declared: Declared) -> tuple[Value, ...]:
    values = declared.values(parameter, raw, where)
    if not values or not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        raise StudyError(f"`candidates` must be numbers, got {shortened(raw)} ({declared.file}, {where})")
    return values

"""The ``[[sample]]`` section read into an index axis: its points, drawn in a box."""

from __future__ import annotations

import json
from typing import Any

from evogt_study.errors import DoubtWarning, StudyError, warn
from evogt_study.study.case_space import MAX_CASES, Axis, Points
from evogt_study.study.declared_values import Declared
from evogt_study.study.designs.distributions import distribution
from evogt_study.study.designs.place import Place
from evogt_study.study.designs.unit_points import RULES, Rule
from evogt_study.study.study_file import SampleTable

OPTIONS = ("extend", "second_order", "levels")
"""Keys that not all rules have."""


def read_sample(table: SampleTable, declared: Declared, place: Place) -> Axis:
    """The points of a sample.  Raises StudyError."""
    rule, parameters = _rule(table, place), table.parameters
    if not parameters:
        raise StudyError(f"`{table.name}` must have at least one parameter, got none ({place}); say gamma = {{ ... }}")
    options = {name: getattr(table, name) for name in rule.options or {}}
    each = rule.per_count(len(parameters), **options)
    count = table.count * each
    if (table.start + table.count) * each > MAX_CASES:
        start = f", `start` = {table.start:,} included" if table.start else ""
        raise place.at("count").mistake(f"at most {MAX_CASES // each:,}{start}", table.count)
    quantiles = {
        name: distribution(raw, place.at(name), rule.closed) for name, raw in parameters.items()
    }  # before anything is drawn
    # drawn from the first on and cut, so that points after `start` are those of the whole sample
    drawn = rule.draw(len(parameters), table.start + table.count, table.sample_seed, **options)[-count:]
    columns = {
        # what is rounded is canonical; what a choice lists is as it was written
        name: declared.column(
            name, values(drawn[:, number]), f"{place.where}.{name}", settled="choice" not in parameters[name]
        )
        for number, (name, values) in enumerate(quantiles.items())
    }
    first = table.start * each
    points = Points(columns, first, json.dumps(_description(table, options), default=str))
    return Axis(table.name, tuple(range(first, first + count)), points)


def _rule(table: SampleTable, place: Place) -> Rule:
    """The rule, with options that it has.  Raises StudyError."""
    if table.rule not in RULES:
        raise place.at("rule").mistake(f"one of {', '.join(RULES)}", table.rule)
    rule = RULES[table.rule]
    known = {*(rule.options or {}), *([] if rule.nested else ["extend"])}
    for name in OPTIONS:
        if name in table.model_fields_set and name not in known:
            raise StudyError(f"`{name}` must be left out with the rule {table.rule} ({place.at(name)})")
    if table.start and not rule.nested:
        raise place.at("start").mistake(f"0 with the rule {table.rule}, whose points belong together", table.start)
    if table.levels % 2:
        raise place.at("levels").mistake("even, so that steps of half the levels fit", table.levels)
    return rule


def warn_of_count(table: SampleTable, place: Place) -> None:
    """Give a `DoubtWarning` for a count that leaves a sequence unbalanced."""
    end = table.start + table.count
    if RULES[table.rule].balanced and end & (end - 1):
        above = 2 ** end.bit_length()
        warn(
            f"`count` of the sample {table.name} is {table.count:,}: points of a Sobol sequence are balanced where "
            f"their number is a power of two, as {above // 2:,} or {above:,} ({place.at('count')})",
            DoubtWarning,
        )


def _description(table: SampleTable, options: dict[str, Any]) -> dict[str, Any]:
    """Rule, count and parameters of a sample, for whoever reads its points."""
    stated = {"kind": "sample", "rule": table.rule, "count": table.count, "sample_seed": table.sample_seed}
    start = {"start": table.start} if table.start else {}
    return {**stated, **start, **options, "parameters": table.parameters}

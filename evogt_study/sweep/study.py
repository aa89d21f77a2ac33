"""A study: one question, stated in one file, with every parameter checked."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evogt_study.errors import FormulaError, InputError, ParameterError, StudyError, shortened
from evogt_study.problems import Statement
from evogt_study.sweep.contract import Method, MethodSpec, Output
from evogt_study.sweep.methods import load_method, method_spec
from evogt_study.sweep.parameters import Parameter
from evogt_study.sweep.schema import BOOKKEEPING
from evogt_study.sweep.space import CANDIDATE, Axis, CaseSpace, Chosen, When
from evogt_study.sweep.study_file import MAX_CASES, PilotTable, ProblemTable, SeedRange, StudyTable, read_table
from evogt_study.sweep.values import Value, labels, text_label

MAX_CHECKED = 5_000
"""Cases whose parameters are checked together before anything runs; beyond, a bad combination is a failed run."""


@dataclass(frozen=True, eq=False)
class Pilot:
    """Choice of `parameter` on seeds that the study never uses: the candidate with the least mean of `minimise`.

    The mean is taken over the pilot seeds, and over axes that are not in `by`.  `space` holds the pilot's cases: the
    study's axes, the candidate, and the pilot's seeds.
    """

    parameter: str
    minimise: str
    by: tuple[str, ...]
    candidates: Mapping[Value | None, tuple[Value, ...]]
    space: CaseSpace


@dataclass(frozen=True, eq=False)
class Study:
    """A checked study.  `space` lacks the parameter that a pilot is still to choose."""

    name: str
    title: str
    source: str
    spec: MethodSpec
    space: CaseSpace
    pilot: Pilot | None
    text: str
    file: str

    @staticmethod
    def from_file(path: str | Path) -> Study:
        """Read and check a study file.  Raises StudyError, one line, for every mistake in it."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StudyError(f"cannot read the study file {path}: {reason}") from None
        return Study.from_text(text, str(path))

    @staticmethod
    def from_text(text: str, file: str = "study") -> Study:
        """Check a study given as TOML text; `file` names it in messages, and its folder is where Python files are."""
        return _Reader(read_table(text, file), text, file).study()

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    def parameter(self, name: str) -> Parameter:
        """Declaration of a parameter."""
        return self.method.parameters[name]

    def where(self, name: str) -> str:
        """The section that gives a parameter its value, for messages."""
        if name in self.space.names:
            section = "axes"
        elif name in self.space.followers:
            section = "when"
        elif self.pilot is not None and name == self.pilot.parameter:
            section = "pilot"
        else:
            section = "output" if name == "times" else "constants"
        return f"{self.file}, {section}.{name}"

    def with_choice(self, choice: Chosen) -> CaseSpace:
        """The cases with the pilot's choice in place."""
        return self.space.with_chosen(choice)


class _Reader:
    """One pass from a table of the right shape to a study whose every value is checked."""

    def __init__(self, table: StudyTable, text: str, file: str) -> None:
        self.table, self.text, self.file = table, text, file
        try:
            self.spec = self._spec()
            self.method = load_method(self.spec)
        except FormulaError as error:
            raise StudyError(f"{error} ({file}, problem)") from None
        except InputError as error:
            raise StudyError(f"{error} ({file})") from None
        self.known = self.method.parameters

    def _spec(self) -> MethodSpec:
        stated, output = self.table.problem, self.table.output
        problem = Statement(**stated.model_dump()) if isinstance(stated, ProblemTable) else stated
        outputs = None
        if output is not None:
            times = output.times if isinstance(output.times, int) else tuple(float(t) for t in output.times)
            outputs = Output(times, tuple(dict.fromkeys(output.record)), output.grid)
        return method_spec(self.table.method, problem, outputs, Path(self.file).parent)

    def study(self) -> Study:
        axes = tuple(self._axis(name, raw) for name, raw in self.table.axes.items())
        size = math.prod(len(axis.values) for axis in axes)
        if size > MAX_CASES:
            raise StudyError(f"a study must have at most {MAX_CASES:,} cases, got {size:,} ({self.file}, axes)")
        space = CaseSpace(axes, self._constants(axes), self._rules(axes))
        pilot = None if self.table.pilot is None else self._pilot(self.table.pilot, space)
        study = Study(
            self.table.name, self.table.title, self.table.source, self.spec, space, pilot, self.text, self.file
        )
        self._check_resolved(study)
        self._check_together(study)
        return study

    def _value(self, name: str, raw: Any, where: str) -> Value:
        if name not in self.known:
            near = difflib.get_close_matches(name, self.known, 1)
            advice = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(self.known)}"
            raise StudyError(f"unknown parameter `{name}` ({self.file}, {where}); {advice}")
        if name in self.method.reserved or name in BOOKKEEPING or name == CANDIDATE:
            raise StudyError(
                f"the parameter `{name}` must have another name, since the result file uses this one "
                f"({self.file}, {where})"
            )
        try:
            return self.known[name].value(raw, f"{self.file}, {where}")
        except ParameterError as error:
            raise StudyError(str(error)) from None

    def _axis(self, name: str, raw: Any) -> Axis:
        where = f"axes.{name}"
        entries = self._seeds(raw, where) if isinstance(raw, dict) else raw
        if not isinstance(entries, list) or not entries:
            raise StudyError(
                f"`{name}` must be a list of values, got {shortened(raw)} ({self.file}, {where}); "
                "one value belongs in [constants]"
            )
        values = tuple(self._value(name, entry, f"{where}[{i}]") for i, entry in enumerate(entries))
        self._check_different(name, values, where)
        return Axis(name, values)

    def _seeds(self, raw: Any, where: str) -> list[int]:
        try:
            return SeedRange.model_validate(raw).values
        except ValueError:
            raise StudyError(
                f"`{where}` must be a list, or {{ start = integer >= 0, count = integer >= 1 }}, "
                f"got {shortened(raw)} ({self.file}, {where})"
            ) from None

    def _check_different(self, name: str, values: Iterable[Value], where: str) -> None:
        seen: dict[str, Value] = {}
        for value in values:
            label = text_label(value)  # labels have to tell the values apart in the result file
            if label in seen:
                raise StudyError(f"`{name}` must have different values, got {label} twice ({self.file}, {where})")
            seen[label] = value

    def _constants(self, axes: tuple[Axis, ...]) -> dict[str, Value]:
        names = {axis.name for axis in axes}
        constants = {
            name: parameter.default
            for name, parameter in self.known.items()
            if parameter.default is not None and name not in names
        }
        for name, raw in self.table.constants.items():
            if name in names:
                raise StudyError(f"`{name}` must be an axis or a constant, got both ({self.file}, constants.{name})")
            constants[name] = self._value(name, raw, f"constants.{name}")
        return constants

    def _rules(self, axes: tuple[Axis, ...]) -> tuple[When, ...]:
        by_name = {axis.name: axis for axis in axes}
        rules = []
        for i, rule in enumerate(self.table.when):
            where = f"when[{i}]"
            match = {name: self._admitted(by_name, name, raw, where) for name, raw in rule.match.items()}
            for name in rule.set:
                if name in by_name:
                    raise StudyError(
                        f"`{name}` must not be set by a rule, since it is an axis ({self.file}, {where}.set.{name})"
                    )
            rules.append(
                When(match, {name: self._value(name, raw, f"{where}.set.{name}") for name, raw in rule.set.items()})
            )
        return tuple(rules)

    def _admitted(self, axes: Mapping[str, Axis], name: str, raw: Any, where: str) -> frozenset[Value]:
        """The axis values that a rule's match means; each has to stand on the axis, else the rule matches no case."""
        where = f"{where}.match.{name}"
        if name not in axes:
            raise StudyError(f"`match` must name axes ({', '.join(axes)}), got {name!r} ({self.file}, {where})")
        axis = axes[name]
        try:
            wanted = [self._value(name, raw, where)]
        except StudyError:
            if not isinstance(raw, list) or not raw:
                raise
            wanted = [self._value(name, entry, where) for entry in raw]
        for value in wanted:
            if value not in axis.values:
                raise StudyError(
                    f"the rule matches no case: {name} has no value {text_label(value)} ({self.file}, {where})"
                )
        return frozenset(wanted)

    def _pilot(self, table: PilotTable, space: CaseSpace) -> Pilot:
        self._check_pilot(table, space)
        candidates = self._candidates(table, space)
        seeds = tuple(self._value("seed", seed, f"pilot.seeds[{i}]") for i, seed in enumerate(table.seed_values))
        self._check_different("seed", seeds, "pilot.seeds")
        shared = sorted(set(seeds) & set(space.axis("seed").values), key=str)
        if not seeds or shared:
            got = f"{', '.join(text_label(seed) for seed in shared[:5])} in both" if shared else "none"
            raise StudyError(
                f"`seeds` of the pilot must be different from the study's, got {got} ({self.file}, pilot.seeds)"
            )
        most = max(len(values) for values in candidates.values())
        others = tuple(axis for axis in space.axes if axis.name != "seed")
        axes = (*others, Axis(CANDIDATE, tuple(range(most))), Axis("seed", seeds))
        over = ((table.by[0],) if None not in candidates else ()) + (CANDIDATE,)
        entries = {
            ((key,) if key is not None else ()) + (i,): value
            for key, values in candidates.items()
            for i, value in enumerate(values)
        }
        pilot_space = CaseSpace(axes, space.constants, space.rules, (Chosen(table.parameter, over, entries),))
        if pilot_space.size > MAX_CASES:
            raise StudyError(
                f"a pilot must have at most {MAX_CASES:,} cases, got {pilot_space.size:,} ({self.file}, pilot)"
            )
        return Pilot(table.parameter, table.minimise, tuple(table.by), candidates, pilot_space)

    def _check_pilot(self, table: PilotTable, space: CaseSpace) -> None:
        if "seed" not in space.names:
            raise StudyError(
                f"a pilot must have a study with a `seed` axis, got {', '.join(space.names)} ({self.file}, axes)"
            )
        outside = [name for name in table.by if name not in space.names or name == "seed"]
        if outside or len(set(table.by)) != len(table.by):
            raise StudyError(
                f"`by` must name different axes other than seed, got {shortened(table.by)} ({self.file}, pilot.by)"
            )
        if (
            table.parameter in space.names
            or table.parameter in space.followers
            or table.parameter in self.table.constants
        ):
            raise StudyError(
                f"`{table.parameter}` must be left to the pilot, got a value of its own "
                f"({self.file}, {'axes' if table.parameter in space.names else 'constants or when'})"
            )
        scalars = self.method.variables
        if scalars is not None and table.minimise not in scalars:
            raise StudyError(
                f"`minimise` must be one of {', '.join(scalars)}, got {table.minimise!r} ({self.file}, pilot.minimise)"
            )

    def _candidates(self, table: PilotTable, space: CaseSpace) -> dict[Value | None, tuple[Value, ...]]:
        """Candidate values for each value of the first `by` axis, or under None where they are one list for all."""
        if isinstance(table.candidates, list):
            return {None: self._candidate_list(table.parameter, table.candidates, "pilot.candidates")}
        if not table.by:
            raise StudyError(f"`candidates` must be a list where `by` is empty ({self.file}, pilot.candidates)")
        axis = space.axis(table.by[0])
        by_label = {str(label): value for label, value in zip(labels(axis.values), axis.values, strict=True)}
        if set(table.candidates) != set(by_label):
            raise StudyError(
                f"`candidates` must have a list for each {axis.name} ({', '.join(by_label)}), "
                f"got {', '.join(table.candidates) or 'none'} ({self.file}, pilot.candidates)"
            )
        return {
            by_label[key]: self._candidate_list(table.parameter, raw, f"pilot.candidates.{key}")
            for key, raw in table.candidates.items()
        }

    def _candidate_list(self, parameter: str, raw: list[Any], where: str) -> tuple[Value, ...]:
        values = tuple(self._value(parameter, entry, f"{where}[{i}]") for i, entry in enumerate(raw))
        if not values or not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            raise StudyError(f"`candidates` must be numbers, got {shortened(raw)} ({self.file}, {where})")
        self._check_different(parameter, values, where)
        return values

    def _check_resolved(self, study: Study) -> None:
        """Every parameter that some case needs has a value there."""
        chosen = {study.pilot.parameter} if study.pilot else set()
        for point in study.space.representatives(extra=("dictionary",)):
            values = study.space.resolved(point) or {}
            missing = [name for name in self.method.required(values) if name not in values and name not in chosen]
            if missing:
                at = ", ".join(f"{name} = {text_label(point[name])}" for name in study.space.names if name != "seed")
                raise StudyError(
                    f"`{missing[0]}` must be given ({self.file}, constants.{missing[0]}), got no value"
                    + (f" for {at}" if at else "")
                    + "; set it in [constants], [axes] or a [[when]] rule"
                )

    def _check_together(self, study: Study) -> None:
        """Each case's parameters fit together; the seed cannot matter here, so one stands for all."""
        space = study.pilot.space if study.pilot else study.space
        axes = tuple(Axis(axis.name, axis.values[:1]) if axis.name == "seed" else axis for axis in space.axes)
        seedless = CaseSpace(axes, space.constants, space.rules, space.chosen)
        stride = max(1, seedless.size // MAX_CHECKED)
        for index in range(0, seedless.size, stride):
            values = seedless.values(index)
            if values is None:
                continue
            try:
                self.method.check(values)
            except ParameterError as error:
                raise StudyError(str(error.at(study.where(error.name)))) from None
            except InputError as error:
                raise StudyError(f"{error} ({self.file}, problem)") from None

"""Define a study in Python or read it from a file, display it and describe its changes."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import tomli_w

from evogt_study.errors import InputError, ParameterError, StudyError, as_sentence, shorten
from evogt_study.methods.code import CodeKind, MethodSpec, UserCode, find_named_code
from evogt_study.methods.current_run import RNG
from evogt_study.methods.loading import load_method
from evogt_study.methods.protocol import Method
from evogt_study.schema.values import Values, make_coordinate, text_label
from evogt_study.schema.variables import PILOT
from evogt_study.storage.files import MAX_STUDY_BYTES, is_utf8, read_text
from evogt_study.study.arguments import StudyArguments
from evogt_study.study.case_space import CaseSpace, ParameterTable
from evogt_study.study.designs import SECTION, StatedDesign, read_files
from evogt_study.study.model import StudyModel, parse_study, suggest_reader, validate_table, write_toml
from evogt_study.study.parameter_values import Declared, Resources
from evogt_study.study.phases import SEED, Phase, Pilot
from evogt_study.study.reading import Named, Reader

MAX_CHECKED = 5_000
"""Largest number of cases whose parameters the package checks before the first run, in 0.4 s for one problem."""
MAX_CHANGES = 4
"""Largest number of changes that a message names, so that it fits on a line of a terminal."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Study:
    """Study with checked values, from arguments or from a file (`from_file`).

    Parameters
    ----------
    method : callable or str, optional
        Function with named parameters, or the name of a method as in a study file.  To vary the method or the problem,
        give `axes` a mapping of names to methods or problems.
    axes : mapping, optional
        Values of each parameter that varies: a list, an array, or a mapping of names to any objects.
    designs : design or iterable of designs, optional
        Dimensions along which several parameters change, from `evs.zip_axes`, `evs.sample` or `evs.table`.
    exclude : iterable of mappings, optional
        Rules for points without a case: mappings with the key `match`.
    constants : mapping, optional
        Values of the parameters that do not vary.
    when : iterable of mappings, optional
        Rules for dependent parameters: mappings with the keys `match` and `set`.
    problem : optional
        Problem in formulas, the name of a problem, or a function that returns a problem.
    name : str, optional
        Name of the study and of its result file.  The default is the name of the method.
    title, source : str, optional
        Title and origin of the study.  The result file contains both texts.
    depends : iterable of str, optional
        Files whose content is part of the fingerprint of the function.
    common : str or sequence of str, optional
        Parameters whose values share the random stream of a seed (argument `rng`), or "all" or "none".
    command : str, optional
        Program and arguments in place of `method`, with parameters in braces.
    template, read, shell, container, keep : optional
        Keys of a study file for a command.
    pilot, output, precision, publication, resources : mapping, optional
        Sections of a study file with these names.

    Attributes
    ----------
    phases : tuple of Phase
        The phases in the order in which they run.

    Raises
    ------
    StudyError
        If an argument is wrong.  The message is one line.

    Examples
    --------
    >>> study = Study(lambda points, seed: points + seed, axes={"points": [10, 100], "seed": range(3)}, name="sums")
    >>> study
    study sums: 6 cases = 2 points x 3 seed
    """

    model: StudyModel
    file: str
    spec: MethodSpec
    phases: tuple[Phase, ...]

    def __init__(
        self,
        method: Callable[..., Any] | str | None = None,
        *,
        axes: Mapping[str, Any] | None = None,
        designs: StatedDesign | Iterable[StatedDesign] = (),
        exclude: Iterable[Mapping[str, Mapping[str, Any]]] = (),
        constants: Mapping[str, Any] | None = None,
        when: Iterable[Mapping[str, Mapping[str, Any]]] = (),
        problem: Any = None,
        name: str | None = None,
        title: str = "",
        source: str = "",
        depends: Iterable[str] = (),
        pilot: Mapping[str, Any] | None = None,
        common: str | Sequence[str] | None = None,
        command: str | None = None,
        template: str | Sequence[str] | None = None,
        read: Mapping[str, str] | None = None,
        shell: bool | None = None,
        container: str | None = None,
        keep: bool | None = None,
        resources: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
        precision: Mapping[str, Any] | None = None,
        publication: Mapping[str, Any] | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key != "self"}
        arguments = StudyArguments({})
        arguments.update(given, none_removes=False)
        arguments.set_default_name(method)
        vars(self).update(vars(_read(*arguments.check(f"study {arguments.table['name']}"))))

    def replace(self, **changes: Any) -> Study:
        """Return a new study with some arguments changed.

        Parameters
        ----------
        **changes
            Arguments of `Study`.  Unnamed entries of `axes` and `constants` do not change.  An axis may become a
            constant, and a constant may become an axis.  The value None removes an argument or an entry.

        Returns
        -------
        Study
            A new study.

        Raises
        ------
        StudyError
            If an argument is wrong.  The message is one line.

        Examples
        --------
        >>> study = Study(lambda a, seed: a, axes={"a": [1, 2], "seed": range(3)}, name="small")
        >>> len(study.replace(axes={"a": [1, 2, 3]}))
        9
        """
        known = tuple(signature(Study).parameters)
        for key in changes:
            if key not in known:
                raise StudyError(f"unknown argument {key!r} of `Study`. Use one of {', '.join(known)}")
        arguments = StudyArguments.of(self)
        arguments.update(changes)
        return _read(*arguments.check(self.file))

    def to_file(self, path: str | Path) -> Path:
        """Write the study to a new study file for `evogt run`.

        Parameters
        ----------
        path : str or Path
            Study file.  If the file already contains this study, it does not change.

        Returns
        -------
        Path
            `path`.

        Raises
        ------
        StudyError
            If a study file cannot name the function of the study, or if `path` contains another text.

        Examples
        --------
        >>> study = Study("monte_carlo.py:pi", axes={"seed": range(3)})  # doctest: +SKIP
        >>> study.to_file("pi.toml")  # doctest: +SKIP
        """
        return StudyArguments.of(self).write(Path(path), Path(self.file).parent)

    @property
    def name(self) -> str:
        """The name of the study and of its result file."""
        return self.model.name

    @property
    def title(self) -> str:
        """The title of the study."""
        return self.model.title

    @cached_property
    def text(self) -> str:
        """The TOML text of the study, from its file or made from its arguments."""
        return write_toml(self.model.given)

    def with_codes(self, change: Callable[[UserCode], UserCode]) -> Study:
        """Return a copy of the study in which `change` replaces each `UserCode`."""
        study = copy(self)
        vars(study)["spec"] = self.spec.with_codes(change)
        return study

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The coordinate values of each axis."""
        return {axis.name: list(make_coordinate(axis.values)) for axis in self.space.axes}

    def __len__(self) -> int:
        return self.space.count

    def __repr__(self) -> str:
        points = "" if len(self) == self.space.size else f" of {self.space.size:,} points"
        axes = " x ".join(f"{len(axis.values):,} {axis.name}" for axis in self.space.axes)
        values = {name: make_coordinate([value])[0] for name, value in self.space.constants.items()}
        forms = {name: ".6g" if isinstance(value, float) else "" for name, value in values.items()}
        constants = ", ".join(f"{name} = {value:{forms[name]}}" for name, value in values.items())
        return f"study {self.name}: {len(self):,} cases{points} = {axes}" + (f"\n  {constants}" if constants else "")

    @staticmethod
    def from_file(path: str | Path, *, find_user_code: Named | None = None) -> Study:
        """Read and check a study file.

        Parameters
        ----------
        path : str or Path
            Study file.  Without the key `name`, the study has the name of the file.
        find_user_code : callable, optional
            Function that returns the code for a reference such as ``file.py:name``.  By default, the study reads the
            code from the file.

        Returns
        -------
        Study
            The study.

        Raises
        ------
        StudyError
            If the file has a mistake.  The message is one line.

        Examples
        --------
        >>> Study.from_file("studies/oscillatory_1d.toml").name  # doctest: +SKIP
        'oscillatory_1d'
        """
        path = Path(path)
        if not is_utf8(str(path)):  # the result contains the name
            raise StudyError(f"cannot read the study file {str(path)!a}: its name must be UTF-8. Rename it")
        try:
            text = read_text(path, "the study file", StudyError, max_bytes=MAX_STUDY_BYTES)
        except StudyError as error:
            raise StudyError(f"{error}{suggest_reader(str(path))}") from None
        return Study.from_text(text, str(path), find_user_code=find_user_code)

    @staticmethod
    def from_text(
        text: str, file: str = "study", *, find_user_code: Named | None = None, recorded: bool = False
    ) -> Study:
        """Return the checked study of a TOML text.

        Messages name `file`, and relative paths start in its folder.  If the text comes from a result (`recorded`),
        read no files of tables and give no warnings.
        """
        raw, text = parse_study(text, file)
        model, folder = validate_table(StudyModel, raw, file), Path(file).parent
        if not recorded and (files := read_files(model, file)):
            # appended: the comments and the order of the study file stay
            head = "" if model.table_files else f"\n# what the files of [[table]] held\n[{SECTION}]\n"
            text = f"{text.rstrip(chr(10))}\n{head}{tomli_w.dumps(files, indent=2)}"
            model = model.model_copy(update={SECTION: model.table_files | files})
        code = find_user_code or (lambda reference, depends: find_named_code(reference, folder, depends))
        study = _read(model, file, code, warn=not recorded)
        vars(study)["text"] = text
        return study

    @property
    def space(self) -> CaseSpace:
        """The cases of the main phase, without the parameters that the pilot chooses."""
        return self.phases[-1].space

    @property
    def has_streams(self) -> bool:
        """True if runs receive a random generator `rng`."""
        space = self.space
        given = {*space.names, *space.columns, *space.dependent_parameters, *space.constants}
        return self.method.has_streams and RNG not in given

    @cached_property
    def resources(self) -> Resources | None:
        """Memory, cores and minutes of each run, or None if the study does not state them."""
        table = self.model.resources
        return None if table is None else Resources.of(table, Declared(self.method, self.file))

    @property
    def pilot(self) -> Pilot | None:
        """The choice of the pilot, if the study has one."""
        return next((phase.choice for phase in self.phases if phase.choice is not None), None)

    @property
    def method(self) -> Method:
        """The method that runs the cases."""
        return load_method(self.spec)

    def iterate_provisional_spaces(self) -> Iterator[CaseSpace]:
        """Yield the cases of each phase before the first run, with the first candidates as the pilot's choice."""
        chosen: tuple[ParameterTable, ...] = ()
        for phase in self.phases:
            yield phase.space.with_chosen(*chosen)
            if phase.choice is not None:
                chosen += (phase.choice.choose_first_candidates(self.space),)


def check_study(given: object) -> None:
    """Raise InputError for anything except a `Study`, such as a path."""
    if not isinstance(given, Study):
        raise InputError(f"`study` must be a Study, got {shorten(given)}. Use Study.from_file(PATH)")


def _read(model: StudyModel, file: str, find_user_code: Named, *, warn: bool = True) -> Study:
    """Return the study that a model describes, with checked values.  Raises StudyError."""
    reader, study = (
        Reader(model, file, find_user_code),
        object.__new__(Study),
    )  # without __init__, which takes arguments
    vars(study).update(model=model, file=file, spec=reader.spec, phases=reader.read_phases(warn=warn))
    _check_cases(study)
    return study


def _check_cases(study: Study) -> None:
    """Raise StudyError if a case lacks a parameter that it needs, or if its parameters are inconsistent."""
    method, few = study.method, {SEED} & {*study.method.key_only_parameters}  # few seeds stand for all
    for space in reversed([*study.iterate_provisional_spaces()]):
        for at in space.representatives(method.setup_parameters):
            values = space.resolve(at)
            needed = () if values is None else method.list_required_parameters(values)
            missing = [name for name in needed if name not in (values or {})]
            if missing:
                point = ", ".join(f"{name} = {text_label(at[name])}" for name in space.names if name != SEED)
                remedy = method.parameters[SEED].remedy if missing[0] == SEED else ""
                listed = ", ".join(f"`{name}`" for name in missing)
                message = f"{listed} must be given ({study.file}, constants.{missing[0]}), got no value"
                remedy = (
                    remedy or f"set {'it' if len(missing) == 1 else 'them'} in [constants], [axes] or a [[when]] rule"
                )
                raise StudyError(f"{message}{' for ' if point else ''}{point}{as_sentence(remedy)}")
        # code that is only declared was checked before it ran, and checking it again would run it
        is_declared = any(code.kind is CodeKind.DECLARED for code in study.spec.codes)
        for at in space.representatives({*space.names} - few, MAX_CHECKED) if not is_declared else ():
            values = space.resolve(at)
            if values is None:
                continue
            if study.resources is not None:
                study.resources.compute_needs(values)
            try:
                method.bind(values).check()
            except ParameterError as error:
                raise StudyError(str(error.at(f"{study.file}, {_find_section(study, error.name, values)}"))) from None
            except InputError as error:
                raise StudyError(f"{error} ({study.file}, problem)") from None


def _find_section(study: Study, name: str, values: Values) -> str:
    """Return the key of the study file that sets a parameter in a case."""
    space, pilot = study.space, study.pilot
    # a rule may replace a constant in some cases: the value shows which of the two holds here
    is_constant = name in space.constants and values.get(name) == space.constants[name]
    sections = {"axes": space.names, "when": () if is_constant else space.dependent_parameters}
    sections |= {PILOT: () if pilot is None else pilot.parameters, "output": ("times",)}
    found = (section for section, names in sections.items() if name in names)
    return f"{space.columns.get(name) or next(found, 'constants')}.{name}"


def describe_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the changes of a study on one line, such as "constants.gamma: 2 -> 3".

    `before` and `after` hold the texts "study", "code" (the declaration) and "version" (of the package).  If these
    texts are equal, return "choice of the pilot".
    """
    found = []
    try:
        old, new = (dict(_flatten(tomllib.loads(each["study"]))) for each in (before, after))
        for name in dict.fromkeys([*old, *new]):
            one, other = (shorten(texts[name]) if name in texts else "" for texts in (old, new))
            if not one or not other:
                found.append(f"{name} = {one or other} {'added' if other else 'removed'}")
            elif old[name] != new[name]:
                found.append(f"{name}: {one} -> {other}")
    except (ValueError, RecursionError):  # another program has changed the result
        found += ["the study's text"] if before["study"] != after["study"] else []
    if before.get("code") != after.get("code"):
        found.append("code of the method")
    elif not found:
        versions = before.get("version"), after.get("version")
        found.append("evogt-study {} -> {}".format(*versions) if len({*versions}) > 1 else "choice of the pilot")
    more = f"; {len(found) - MAX_CHANGES} more" if len(found) > MAX_CHANGES else ""
    return "; ".join(found[:MAX_CHANGES]) + more


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value with its dotted name.  Numbers from 1 name the tables of a list."""
    for name, value in table.items():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            value = {str(number): each for number, each in enumerate(value, 1)}
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value

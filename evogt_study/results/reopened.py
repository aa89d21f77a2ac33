"""Reopen a result file with its study and plan.  Only running a case again needs the code, not its declaration."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import normpath
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xarray as xr

from evogt_study.errors import AccuracyWarning, InPythonError, ResultError, StudyError, format_remedy
from evogt_study.methods.code import CodeKind, UserCode, find_declared_code, find_named_code
from evogt_study.methods.command import is_command
from evogt_study.results.dataset import DECLARATION
from evogt_study.results.netcdf import CONCATENATED, open_phases
from evogt_study.schema.values import find_value, to_string
from evogt_study.schema.variables import MAIN
from evogt_study.storage.files import MAX_STUDY_BYTES, description_path, parse_json, read_bytes, read_text
from evogt_study.study.case_space import CaseSpace, ParameterTable, join_names
from evogt_study.study.model import read_toml
from evogt_study.study.plan import Candidate, Pilot, Plan, find_planned_seeds, join_values, plan_phase
from evogt_study.study.study import Study

CODE_OPTION = "--code FILE.py"
WRITE_STUDY_REMEDY = 'Put the function into a file, then use study.to_file("STUDY.toml") and `evogt run STUDY.toml`'


@dataclass(frozen=True, eq=False)
class ResultWithPlan:
    """Runs of one phase in the file `path`, and their plan."""

    path: Path
    phase: str
    data: xr.Dataset
    study: Study
    plan: Plan

    @cached_property
    def keys(self) -> npt.NDArray[np.str_]:
        """Run keys in the file, in the order of the cases."""
        return self.data["run_key"].values.ravel().astype(str)

    def run(self, index: int) -> xr.Dataset:
        """Return the data of case `index` in the file.  Each axis remains a dimension, with one value."""
        positions = np.unravel_index(index, self.plan.space.shape)
        return self.data.isel({name: [int(i)] for name, i in zip(self.plan.space.names, positions, strict=True)})


def read_plans(
    path: Path, groups: Mapping[str, xr.Dataset], codes: Mapping[str, UserCode] | None = None, *,
    folder: Path | None = None,
) -> dict[str, ResultWithPlan]:  # fmt: skip
    """Return the phases of a result with their plans.  Raises ResultError if the axes of file and study differ.

    `codes` is the code from `find_code_to_run`, which is then imported.  By default, the result declares the code.
    `folder` is the base of relative paths, by default the folder of the study file.
    """
    study = read_recorded_study(path, select_main_phase(groups), codes, folder=folder)
    plans, chosen = dict[str, Plan](), list[ParameterTable]()
    for each in study.phases:
        if plans and MAIN not in groups:  # an earlier phase, whose choice the next one needs, is not finished
            break
        seeds = find_planned_seeds(each, [groups[each.name]] if each.name in groups else [])
        plans[each.name] = plan_phase(study, each, chosen if seeds is None else [*chosen, seeds])
        if each.choice is not None and MAIN in groups:
            chosen.append(read_choice(path, groups[MAIN], study, each.choice))
    for phase, status in ((phase, data["run_status"]) for phase, data in groups.items()):
        if phase not in plans:
            message = f"{path} holds {phase} runs, but its study has no {phase}"
            raise ResultError(f"{message}. The file has changed since it was written")
        planned = zip(plans[phase].space.names, plans[phase].space.shape, strict=True)
        wanted, got = (" x ".join(f"{size} {name}" for name, size in sizes) or "none"
                       for sizes in (planned, status.sizes.items()))  # fmt: skip
        if wanted != got:
            raise ResultError(f"{path} ({phase}) must have the axes {wanted} of its study, got {got}")
    return {phase: ResultWithPlan(path, phase, data, study, plans[phase]) for phase, data in groups.items()}


def select_main_phase(groups: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return the runs of the main phase, or the runs of the pilot if the result has no main phase."""
    return groups[MAIN] if MAIN in groups else next(iter(groups.values()))


# Reading a result imports nothing: a file from elsewhere must not run code.
def read_recorded_study(
    path: Path, data: xr.Dataset, codes: Mapping[str, UserCode] | None = None, *, folder: Path | None = None
) -> Study:
    """Return the study from the text in a result.  `codes` and `folder` are as in `read_plans`.  Raises ResultError."""
    if CONCATENATED in data.attrs:
        raise ResultError(f"{path} joins results of several studies. Use one of these results instead.")
    text, file = str(data.attrs["study"]), Path(str(data.attrs.get("study_file", "study")))
    if folder is not None:
        file = folder / file.name
    written = str(data.attrs.get(DECLARATION, ""))

    def find_user_code(reference: str, _: Sequence[str]) -> UserCode:
        return find_declared_code(reference, file.parent, written) if codes is None else codes[reference]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)  # the runs themselves give these warnings
            return Study.from_text(text, str(file), find_user_code=find_user_code, recorded=True)
    except StudyError as error:
        raise ResultError(f"the study in {path} cannot be used: {error}") from None


def study_as_recorded(file: Path, results: Sequence[Path]) -> Study:
    """Return the study of a file, with code that one of `results` declares.  Raises StudyError for other code."""
    texts = list[str]()
    for path in results:
        exists = path.exists()  # it raises OSError for a name that is too long
        with suppress(OSError, ValueError, LookupError, TypeError):
            if exists:
                with open_phases(path) as groups:
                    texts.append(select_main_phase(groups).attrs[DECLARATION])
            else:  # it is not finished
                texts.append(str(parse_json(read_bytes(description_path(path)))[DECLARATION]))

    def find_user_code(reference: str, depends: Sequence[str]) -> UserCode:
        now = find_named_code(reference, file.parent, depends).fingerprint
        for text in texts:
            with suppress(ValueError, LookupError, TypeError):
                for name in parse_json(text)["codes"]:  # the study may name the same code otherwise
                    declared = find_declared_code(name, file.parent, text)
                    if declared.fingerprint == now:
                        return replace(declared, reference=reference)
        places = join_names(list(map(str, results)), 6) + ("" if texts else ", which does not exist,")
        raise StudyError(
            f"{places} must have runs of the present code of {reference}, since this command executes no code. Compute "
            f"them with `evogt run {file}`, or count them with `evogt run -n {file}`"
        )

    return Study.from_file(file, find_user_code=find_user_code)


def find_code_to_run(
    path: Path, data: xr.Dataset, code: Path | None = None, folder: Path | None = None
) -> dict[str, UserCode]:
    """Return the code of the study in a result by its references.  `code` and `folder` are as in `find_code`."""
    study = read_recorded_study(path, data, folder=folder)
    depends, declared = study.model.depends, study.spec.codes
    folder = folder or Path(study.file).parent
    for each in declared:
        if is_command(each.reference):
            # a hash of files does not cover the text of a command: a result alone must not have a program executed
            file = (code if code is not None and code.is_dir() else folder) / Path(study.file).name
            text = read_text(file, "the study file", ResultError, max_bytes=MAX_STUDY_BYTES)
            if read_toml(text, str(file)).method_reference != each.reference:
                raise ResultError(f"the command in {file} is not the command in {path}, so nothing was executed")
    return {each.reference: find_code(path, each, code, folder, depends) for each in declared}


def find_code(
    path: Path, declared: UserCode, code: Path | None, folder: Path, depends: Sequence[str],
    remedy: str = f"name the file that computed it with {CODE_OPTION}",
) -> UserCode:  # fmt: skip
    """Return the code that computed the result `path`, without importing it.  Raises ResultError for changed code.

    `code` is the Python file, the folder or the installed module that the user names.  By default, the code is in
    `folder`, because a result must not decide which other file is executed.
    """
    if declared.is_pickled:
        raise InPythonError(
            f"cannot compute a run again: {declared.reference} was given in Python. Its text is in the attribute "
            f"{DECLARATION}. {WRITE_STUDY_REMEDY}"
        )
    reference, remedy = declared.reference, format_remedy(remedy)
    file, _, attribute = reference.rpartition(":")
    file, is_program = file or reference, is_command(reference)  # the files of a program are where the study file says
    if not file.endswith(".py") and code is None and not is_program:
        raise ResultError(f"{file} computed {path}, and only a module that you name is imported. Use --code {file}")
    if code is None and not is_program and not (folder / file).resolve().is_relative_to(folder.resolve()):
        raise ResultError(f"{folder / file}, which computed {path}, must be in the folder {folder}{remedy}")
    name, base = reference, code if code is not None and code.is_dir() else folder
    is_module = not file.endswith(".py") and str(code) in (file, reference)
    if code is not None and not (code.is_dir() or is_program or is_module):
        name, base = f"{code.name}:{attribute}", code.parent
    try:
        found = find_named_code(name, base, depends)
    except StudyError as error:
        raise ResultError(f"{error}{remedy}") from None
    recorded, now = dict(declared.files), dict(found.files)
    changes = [
        f"{_find_path(found, name)} {'is new' if name not in recorded else 'changed' if name in now else 'is missing'}"
        for name in sorted({*recorded, *now})
        if recorded.get(name) != now.get(name)
    ]
    if not changes and found.fingerprint != declared.fingerprint:
        changes = [f"code that {_find_path(found, '')} uses changed"]
    if changes:
        raise ResultError(f"{join_names(changes, 6)} since {path} was computed, so nothing was executed{remedy}")
    return replace(found, is_checked=True)


def _find_path(code: UserCode, name: str) -> str:
    """Return the path of the file `name` in the code hash."""
    if code.kind is CodeKind.COMMAND:
        return normpath(Path(code.folder) / name)
    path = Path(code.path)
    return str(path if not name else normpath(path.parent / name) if code.kind is CodeKind.FILE else name)


def list_code_files(codes: Mapping[str, UserCode]) -> list[str]:
    """Return the files that running this code imports or reads."""
    return sorted({_find_path(code, name) for code in codes.values() for name, _ in code.files})


def read_choice(path: Path, data: xr.Dataset, study: Study, choice: Pilot) -> ParameterTable:
    """Return the choice of the pilot from coordinates of a result.  Raises ResultError for no candidate."""
    for name in choice.parameters:
        if name not in data.coords or set(data[name].dims) != set(choice.by):
            over = f" over {', '.join(choice.by)}" if choice.by else ""
            raise ResultError(f"{path} must have the pilot's choice as a coordinate `{name}`{over}, got none")
    columns = [data[name].transpose(*choice.by).values for name in choice.parameters]
    axes, table = [study.space.axis(name) for name in choice.by], dict[tuple[str, ...], Candidate]()
    for position in np.ndindex(columns[0].shape):
        shown = [str(data[name].values[i]) for name, i in zip(choice.by, position, strict=True)]
        found = [find_value(axis.values, text) for axis, text in zip(axes, shown, strict=True)]
        key = tuple(to_string(axis.values[i]) for axis, i in zip(axes, found, strict=True) if i is not None)
        if len(key) < len(axes):
            continue  # a point that is not part of `study`
        candidates, texts = choice.candidates[key], [str(column[position]) for column in columns]
        fitting = [each for each in candidates if None not in map(find_value, [(value,) for value in each], texts)]
        if not fitting:
            wanted, got = ", ".join(map(join_values, candidates)), join_values(texts)
            chosen = f"`{join_values(choice.parameters)}` in {path}"
            raise ResultError(f"{chosen} must be one of the pilot's candidates ({wanted}), got {got}")
        table[key] = fitting[0]
    return ParameterTable(choice.parameters, choice.by, table)


def format_point(space: CaseSpace, index: int) -> str:
    """Return the axis values of case `index`, such as "dictionary=gtransnet, epsilon=0.1, seed=3"."""
    return ", ".join(f"{name}={to_string(value)}" for name, value in space.point(index).items())

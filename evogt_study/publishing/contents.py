"""Collect the contents of a deposit: results, studies, the files that the runs need, and lists of packages."""

import ast
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path, PurePath
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from evogt_study.analysis.runs import count_status
from evogt_study.errors import InputError, ResultError
from evogt_study.methods.code import CodeKind
from evogt_study.methods.command import Program, is_command
from evogt_study.methods.python_files import find_imported_files, read_source
from evogt_study.operations.verify import verify
from evogt_study.results.netcdf import open_phases, read_software_sets
from evogt_study.results.reopened import find_code, read_recorded_study
from evogt_study.schema.variables import MAIN
from evogt_study.study.designs import TABLE_FILES, parse_table
from evogt_study.study.model import PublicationTable
from evogt_study.study.reading import SourceLocation
from evogt_study.study.study import Study

TEXT_KEYS = frozenset({"name", "title", "source", "publication"})  # keys of a study whose texts never name files


@dataclass(frozen=True, eq=False)
class DepositedStudy:
    """One result of a deposit with its run counts by phase, and the files `beside` its study that the runs need.

    `result`, `text`, `page` and `lock` are paths in the deposit: result, study file, report and list of packages.
    """

    path: Path
    name: str
    title: str
    study: Study
    attributes: Mapping[str, str]
    runs: Mapping[str, str]
    software: Sequence[Mapping[str, Any]]
    beside: Mapping[str, Path]
    result: str
    text: str
    page: str
    lock: str


@dataclass(frozen=True, eq=False)
class Deposit:
    """Results of a deposit, with its title, creators, licence and other metadata."""

    title: str
    publication: PublicationTable
    studies: Sequence[DepositedStudy]
    created: str
    description: str
    keywords: Sequence[str]
    license_address: str


def collect_deposit(paths: Sequence[Path], title: str = "") -> Deposit:
    """Collect the contents of a deposit.  Raises InputError for conflicting names or metadata, or without creators."""
    ((name, count),) = Counter(path.stem for path in paths).most_common(1)
    if count > 1:
        raise InputError(f"`RESULT` must be files with different names, got two files named {name!r}. Rename one file.")
    studies = [collect_study(path) for path in paths]
    stated = [(each.path, each.study.model.publication) for each in studies if each.study.model.publication]
    if not stated:
        raise InputError(
            "`[publication]` must name creators and a license to publish results, got none "
            f"({studies[0].attributes.get('study_file', studies[0].path)}). Add it to the study file or to "
            "evs.Study(publication={...}), and run the study again. All finished runs are reused."
        )
    first, publication = stated[0]
    for path, other in stated:
        if other != publication:
            raise InputError(
                f"`[publication]` must be the same in all results of a deposit, got another in {path} than in {first}"
            )
    known = [each.attributes for each in studies]
    words = [word.strip() for each in known for word in each.get("keywords", "").split(",") if word.strip()]
    return Deposit(
        title or studies[0].title + f" and {len(studies) - 1} more" * (len(studies) > 1),
        publication,
        studies,
        created=max(each["date_created"] for each in known)[:10],
        description=" ".join(dict.fromkeys(each.get("summary", "") for each in known)),
        keywords=list(dict.fromkeys(words)),
        license_address=publication.license
        if "://" in publication.license
        else f"https://spdx.org/licenses/{publication.license}",
    )


def collect_study(path: Path) -> DepositedStudy:
    """Collect the contents of a deposit for one result, without importing its code.  Raises ResultError."""
    findings = verify(path).findings  # `verify` without `rerun` executes no code
    if findings:
        raise ResultError(
            f"a result to publish must have no errors, got {path}: {findings[0]}. "
            "To list all errors, run `evogt verify`."
        )
    with open_phases(path) as groups:
        study = read_recorded_study(path, groups[MAIN])
        attributes, name = {str(key): str(value) for key, value in groups[MAIN].attrs.items()}, path.stem
        # a study in Python has no file, and paths may have backslashes
        file = PurePath(study.file.replace("\\", "/")).name
        return DepositedStudy(
            path, name, attributes.get("title") or name, study, attributes,
            runs={phase: count_status(data).describe() for phase, data in groups.items()},
            software=read_software_sets(groups[MAIN]),
            beside=find_files_beside(path, study),
            result=f"results/{name}.nc",
            text=f"studies/{name}/{file if file.endswith('.toml') else f'{name}.toml'}",
            page=f"reports/{name}.html",
            lock=f"environments/{name}.txt",
        )  # fmt: skip


def find_files_beside(result: Path, study: Study) -> dict[str, Path]:
    """Return the files that a study names or imports, by path from the folder of the study.  Raises ResultError."""
    folder, table = Path(study.file).parent, tomllib.loads(study.text)
    remedy = "publish it from the folder of `evogt run`, with the study file of that run"
    for code in study.spec.codes:
        is_file = ".py:" in code.reference or is_command(code.reference)
        if code.kind is CodeKind.DECLARED and is_file and not code.is_pickled:
            find_code(result, code, None, folder, table.get("depends", []), remedy)
    found: dict[str, Path] = {}
    stated = {key: each for key, each in table.items() if key not in TEXT_KEYS}
    # a column of a table may contain names of meshes or Python files
    columns = {
        name: parse_table(lines, name, SourceLocation(study.file, TABLE_FILES))
        for name, lines in stated.get(TABLE_FILES, {}).items()
    }
    programs = [
        Program(**json.loads(code.reference), folder=folder) for code in study.spec.codes if is_command(code.reference)
    ]
    words = [word for program in programs for word in program.words if not word.startswith("/")]
    for text in dict.fromkeys([*_iterate_texts(stated | {TABLE_FILES: columns}), *words]):
        path = folder / (text.rpartition(":")[0] if ".py:" in text else text)
        try:
            whole = path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # the text may be a formula, and links may form a loop
            continue
        if not whole.is_file():
            continue
        imported = find_imported_files(whole, read_source(whole), whole.parent).values() if path.suffix == ".py" else ()
        for each in (path, *imported):
            # resolve first, because a link or `..` may leave the folder
            inside = each.resolve()
            if not inside.is_relative_to(folder.resolve()):
                raise ResultError(f"{each}, which {study.file} needs, must be in its folder to be published. Move it.")
            found[inside.relative_to(folder.resolve()).as_posix()] = inside
    return dict(sorted(found.items()))


def _iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _iterate_texts(each)


def list_requirements(study: DepositedStudy) -> str:
    """Return requirements for pip, with the versions from the result or else from this environment."""
    versions = json.loads(study.attributes.get("versions", "{}"))
    recorded: dict[str, str] = {canonicalize_name(name): str(version) for name, version in versions.items()}
    references = [code.reference for code in study.study.spec.codes]
    # find the imported modules in the text of the Python files
    modules = {name.partition(":")[0].partition(".")[0] for name in references if ".py:" not in name}
    for path in (path for path in study.beside.values() if path.suffix == ".py"):
        for node in ast.walk(ast.parse(read_source(path))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            # a relative import refers to a file of the study
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    packages = packages_distributions() if modules else {}
    imported = {name for module in modules for name in packages.get(module, ())}
    # Python and BLAS are not packages of pip
    waiting, pinned = sorted({"evogt-study", *imported, *recorded} - {"python", "blas"}), dict[str, str]()
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in pinned:
            continue
        with suppress(PackageNotFoundError):
            installed = distribution(name)
            pinned[name] = recorded.get(name) or installed.version
            needed = map(Requirement, installed.requires or ())
            # without extras, and only for this interpreter and system
            waiting += [each.name for each in needed if not each.marker or each.marker.evaluate({"extra": ""})]
    facts = {
        "Python": recorded.get("python", "unknown"),
        "BLAS": recorded.get("blas", "unknown"),
        "platform": study.attributes.get("platform", "unknown"),
        "processor": study.attributes.get("cpu", "unknown"),
        "git revision of evogt-study": study.attributes.get("git_revision", "unknown"),
        "recorded by the result": ", ".join(sorted(set(recorded) & set(pinned))),
    }
    lines = [f"# {name}: {fact}" for name, fact in facts.items()]
    if len(study.software) > 1:
        lines += [f"# some runs were computed with: {json.dumps(each, sort_keys=True)}" for each in study.software]
    lines += [f"{name}=={version}" for name, version in sorted(pinned.items())]
    return "\n".join(lines) + "\n"

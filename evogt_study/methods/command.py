"""Run a program as a method: insert parameter values into its command and templates, and read its output.

The reference of the method is the JSON text of the first five fields of `Program`.  The parameters are the names in
braces, such as ``{beta}`` or ``{beta:.3g}``, in the command, in the templates and in the names of output files.
"""

import csv
import importlib
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, time
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from evogt_study.errors import ReturnError, RunError, StudyError, shorten
from evogt_study.methods.current_run import clear_run_folder
from evogt_study.schema.values import dump_canonical, hash_text
from evogt_study.storage.files import hash_file, read_file_identity, read_text

STDOUT = "stdout"
"""Name that `read` uses for the standard output of a program, and name of the file with this output."""
_MAX_OUTPUT_BYTES = 16 * 2**10
"""Maximum number of bytes of standard output in the run metadata if `read` does not use this output."""
_FIELD = re.compile(r"\{(\{[^{}]*\})\}|\{([^\W\d]\w*)(?::([^{}]*))?\}")
"""Pattern of a parameter such as ``{x:.3g}``, or of text in double braces, which become single braces."""
_FORMAT_PATTERN = re.compile(r"(.?[<>=^])?[-+ ]?z?#?0?\d*[,_]?(\.\d+)?[bcdeEfFgGnosxX%]?|.*%.*")
"""Pattern of a valid format of a number or string, or of a date format with "%"."""
_SHELL = re.compile(rf"""\\.|\$\{{|<<|'[^']*'|"(?:\\.|\$\([^()]*\)|`[^`]*`|[^"\\])*+"|{_FIELD.pattern}""", re.DOTALL)
"""Pattern of the parts of shell text: an escape, the start of a variable, `<<`, a quoted string or a parameter."""
_QUOTED_PATTERN = re.compile(rf"\\.|\$\{{|\$\([^()]*\)|`[^`]*`|{_FIELD.pattern}", re.DOTALL)
"""Pattern of the parts of a string in double quotes: an escape, the start of a variable, a command or a parameter."""
_SOURCE = re.compile(r"(?P<file>stdout|.+?\.(?P<kind>csv|json|npy|nc))(?::(?P<key>[^\[\]]+))?(?:\[(?P<index>-?\d+)\])?")
_CONTAINER_RUNTIMES = ("apptainer", "singularity")


def is_command(reference: str) -> bool:
    """Return True if `reference` is the JSON text of a command."""
    return reference.startswith("{")


class ReadSource(NamedTuple):
    """Source of one value in `read`: a file, its type, keys such as a column name, and an index."""

    name: str
    file: str
    kind: str
    keys: Sequence[str]
    entry: str | None


@dataclass(frozen=True, eq=False)
class Program:
    """Callable that runs the program of a study with parameter values and returns the output values.

    The fields from `command` to `container` are keys of a study.  `expected` holds the hashes of all files of the
    program from the time when the study was read.
    """

    command: str
    template: Sequence[str]
    read: Mapping[str, str]
    shell: bool
    container: str
    folder: Path
    depends: Sequence[str] = ()
    expected: Sequence[tuple[str, str]] = ()

    @cached_property
    def words(self) -> Sequence[str]:
        """Program name and arguments of the command, with parameters in braces.  Raises StudyError."""
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise StudyError(f"`command` must be a program and its arguments, got {self.command!r}: {error}") from None
        if not words or (_FIELD.search(words[0]) and not self.shell):
            raise StudyError(f"`command` must begin with the name of a program, got {self.command!r}")
        return words

    @cached_property
    def sources(self) -> Sequence[ReadSource]:
        """Sources of the values in [read], or the standard output.  Raises StudyError if a source is not valid."""
        return [_parse_source(name, text) for name, text in (self.read or {"": STDOUT}).items()]

    @cached_property
    def templates(self) -> Mapping[str, tuple[str, str]]:
        """Text of each template, and the name of its output file.  Raises StudyError for an unreadable template."""
        paths = {name: self._find_path(name) for name in self.template}
        texts = {name: read_text(path, "the template", StudyError) for name, path in paths.items()}
        return {name: (texts[name], path.name.removesuffix(".tmpl")) for name, path in paths.items()}

    def _find_path(self, word: str) -> Path:
        return Path(os.path.normpath(self.folder / word))

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """Paths of the program, the container and all other files in the command.  Raises StudyError."""
        found = {}
        for number, word in enumerate(self.words):
            with suppress(OSError, ValueError):  # a word may be too long for a file name
                if (number or "/" in word) and not _FIELD.search(word) and self._find_path(word).is_file():
                    found[word] = self._find_path(word)
        if self.container:
            found[self.container] = self._find_path(self.container)
            if not found[self.container].is_file():
                raise StudyError(f"`container` must be the file of an image, got {self.container!r}")
        program, path = self.words[0], self._find_path(self.words[0])
        if not (self.shell or self.container or shutil.which(str(path) if "/" in program else program)):
            reason = f". Make it executable with `chmod +x {shlex.quote(program)}`"
            if "/" not in program:
                reason = ", which is not on the PATH" + f". Write ./{program}" * path.is_file()
            elif not path.is_file():
                reason = f", but {path} does not exist. Compile it"
            raise StudyError(f"`command` must name a program that can be executed, got {program}{reason}")
        return {word: path for word, path in found.items() if word not in self.templates}

    def hash_files(self) -> dict[str, str]:
        """Return the hash of each file in the command, in the templates and in `depends`."""
        paths = {**self.files, **{name: self._find_path(name) for name in (*self.templates, *self.depends)}}
        try:
            return {name: _hash_unchanged(path, read_file_identity(path)) for name, path in paths.items()}
        except OSError as error:
            raise StudyError(f"`command` must name readable files, got {error.filename}: {error.strerror}") from None

    @property
    def content(self) -> str:
        """Fingerprint of the program, which depends on the content of files and not on their paths."""
        hashes = self.hash_files()
        parts: dict[str, Any] = {
            "command": [hashes.get(word, [word]) for word in self.words],
            "template": [[hashes[name], file] for name, (_, file) in self.templates.items()],
            "read": sorted(self.read.items()),
        }
        if self.shell:
            parts["command"] = [self.command, sorted(hashes[name] for name in self.files)]
        if self.container:
            parts["container"] = hashes[self.container]
        return hash_text(dump_canonical(parts))

    @property
    def names(self) -> Sequence[str]:
        """Names of the parameters, in order of appearance in the texts.  Raises StudyError for an invalid format."""
        texts = [self.command.replace("${", "") if self.shell else self.command]
        texts += [text for text, _ in self.templates.values()] + [source.file for source in self.sources]
        found = [match for text in texts for match in _FIELD.finditer(text) if match[2]]
        for match in found:
            if not _FORMAT_PATTERN.fullmatch(match[3] or ""):
                raise StudyError(f"`{match[2]}` must have a format such as {{{match[2]}:.3g}}, got {match[0]}")
        return list(dict.fromkeys(match[2] for match in found))

    def check(self) -> None:
        """Raise StudyError if the command is invalid whatever the parameter values are."""
        if "rng" in self.names:
            raise StudyError("`command` must not contain {rng}, which is a Python object. Use {seed} instead")
        parse_shell(self.command if self.shell else "")
        if outer := [word for word in self.files if self.shell and word.startswith("../")]:
            raise StudyError(f"`command` must name files below the folder of the study, got {outer[0]}")

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self.names])

    def __call__(self, **values: Any) -> Any:
        """Run the program and return its output values.  If the program fails, it raises RunError."""
        changed = [name for name, content in self.hash_files().items() if (name, content) not in self.expected]
        if changed:  # the run key contains the hashes of the files
            raise RunError(f"{', '.join(changed)} changed since the study was read. Run the study again.")
        folder = clear_run_folder()
        for word in (*self.files, *self.depends):  # these paths must be valid in the folder of the run
            link = PurePosixPath(os.path.normpath(word))
            if not link.is_absolute() and ".." not in link.parts:
                (folder / link.parent).mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    (folder / link).symlink_to(self._find_path(word))
        for text, name in self.templates.values():
            (folder / name).write_bytes(_fill_in(text, values).encode())
        arguments = self._make_arguments(values)
        with (folder / STDOUT).open("w+b") as output:
            try:
                encoded = [argument.encode() for argument in arguments]  # UTF-8 in every locale
                code = subprocess.run(encoded, cwd=folder, stdin=subprocess.DEVNULL, stdout=output).returncode  # noqa: S603
            except (OSError, ValueError) as error:  # for example a NUL character, or arguments that are too long
                raise RunError(f"{arguments[0]} cannot be started: {getattr(error, 'strerror', 0) or error}") from None
            if code:
                raise RunError(f"exit code {code}" if code > 0 else f"signal {-code}, {signal.Signals(-code).name}")
            if all(each.file != STDOUT for each in self.sources):
                output.seek(max(0, output.seek(0, os.SEEK_END) - _MAX_OUTPUT_BYTES))
                sys.stdout.write(output.read().decode(errors="replace"))
        files = dict[Path, Any]()
        found = {each.name: _read_value(each, folder / _fill_in(each.file, values), files) for each in self.sources}
        return found if self.read else found[""]

    def _make_arguments(self, values: Mapping[str, Any]) -> list[str]:
        """Return the program name and its arguments with parameter values."""
        prefix = []
        if self.container:
            runtime = next(filter(shutil.which, _CONTAINER_RUNTIMES), _CONTAINER_RUNTIMES[0])
            prefix = [runtime, "exec", "--bind", str(self.folder), str(self.files[self.container])]
        if self.shell:
            text, fields = parse_shell(self.command)
            return [*prefix, "/bin/sh", "-c", text, "sh", *(_fill_in(field, values) for field in fields)]
        paths = {word: str(path) for word, path in self.files.items() if ".." in PurePosixPath(word).parts}
        paths |= {name: file for name, (_, file) in self.templates.items()}
        return prefix + [paths.get(word) or _fill_in(word, values) for word in self.words]


_hash_unchanged = lru_cache(maxsize=256)(lambda path, identity: hash_file(path))


def format_value(name: str, value: Any, text: str = "") -> str:
    """Return a parameter value as text for a program.  Floats are exact, and booleans and lists are JSON."""
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind in "biuf" else value
    try:
        if text:
            return format(value, text)
        if isinstance(value, (bool, list, tuple, dict, np.ndarray)):
            return json.dumps(value, default=np.ndarray.tolist, ensure_ascii=False)
    except (ValueError, TypeError) as error:
        raise RunError(f"`{name}` cannot be written as {{{name}{':' if text else ''}{text}}}: {error}") from None
    if isinstance(value, (int, float, str, Path, date, time, np.datetime64, np.timedelta64)):
        return value.isoformat() if isinstance(value, (date, time)) else str(value)
    raise RunError(f"`{name}` must be a number, string, boolean, date or list for a program, got {shorten(value)}")


def _fill_in(text: str, values: Mapping[str, Any]) -> str:
    """Return `text` with each parameter in braces replaced by its value."""
    return _FIELD.sub(lambda match: match[1] or format_value(match[2], values[match[2]], match[3] or ""), text)


@lru_cache(maxsize=64)
def parse_shell(command: str) -> tuple[str, Sequence[str]]:
    """Return shell text with arguments such as `"${1}"`, which the shell does not execute, and their parameters."""
    fields = list[str]()

    def replace(match: re.Match[str], around: str = '"') -> str:
        if match[2]:
            fields.append(match[0])
            return f"{around}${{{len(fields)}}}{around[::-1]}"
        if match[0] == "<<":
            raise StudyError("`command` must not contain `<<`. Put the shell code into a script")
        if match[0][0] == "'":
            return _FIELD.sub(lambda each: replace(each, "'\""), match[0])
        if match[0][0] == '"':
            return _QUOTED_PATTERN.sub(lambda each: replace(each, ""), match[0])
        if (match[0][0] == "`" or match[0][:2] == "$(") and (found := _FIELD.search(match[0])):
            raise StudyError(f"`command` must have no parameter inside a quoted $(...), got {found[0]}. Use a script")
        return match[1] or match[0]

    return _SHELL.sub(replace, command), fields


# --- values -----------------------------------------------------------------------------------------------------------


def _parse_source(name: str, text: str) -> ReadSource:
    match = _SOURCE.fullmatch(text)
    if match is None or (match["kind"] == "csv" and not match["key"]) or (match["kind"] == "npy" and match["key"]):
        wanted = 'FILE.csv:COLUMN, FILE.json:KEY, FILE.npy, FILE.nc:VARIABLE or "stdout"'
        raise StudyError(f"`{name}` must be {wanted}, got {text!r} (read.{name})")
    path, kind, key = PurePosixPath(match["file"]), match["kind"] or "", match["key"]
    if path.is_absolute() or ".." in path.parts:
        raise StudyError(f"`{name}` must be a file in the folder of the run, got {text!r} (read.{name})")
    file = STDOUT if path.stem == STDOUT and len(path.parts) == 1 else match["file"]
    keys = [] if key is None else key.split(".") if kind == "json" else [key]
    return ReadSource(name, file, kind, keys, match["index"])


def _read_value(source: ReadSource, path: Path, files: dict[Path, Any]) -> Any:
    """Read the value of a source from its file.  `files` caches the content of files.  Raises ReturnError."""
    where = f" (read.{source.name})" if source.name else ""
    try:
        if path not in files:
            files[path] = _READERS[source.kind](path)
        value = files[path]
        for key in source.keys:
            if isinstance(value, Mapping) and key not in value:
                raise ReturnError(f"{path.name} has no `{key}`, only {', '.join(map(str, value))}{where}")
            value = value[key] if isinstance(value, Mapping) else value[int(key)]
        if source.entry is not None:
            return value[int(source.entry)] if np.ndim(value) else value
    except FileNotFoundError:
        raise ReturnError(f"the program wrote no {path.name}{where}") from None
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise ReturnError(f"{path.name} cannot be read: {error}{where}") from None
    if source.kind != "csv":
        return value
    # without parameters in the name, all runs share one dimension
    stem = re.sub(r"\W+", "_", _FIELD.sub("", PurePosixPath(source.file).stem)).strip("_")
    return (f"{stem or 'file'}_row",), value


def _read_text(path: Path) -> Any:
    """Parse printed text as JSON, a number or a list of numbers, or return it as a string."""
    text = path.read_text(encoding="utf-8-sig", errors="replace").strip()
    if not text:
        raise ValueError("the text is empty")
    for parse in (json.loads, float, lambda line: [float(each) for each in line.split()]):
        with suppress(ValueError, RecursionError):
            return parse(text)
    return text


def _read_csv(path: Path) -> dict[str, Any]:
    """Read the columns of a CSV file, by the names in its first line."""
    lines = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    delimiter = next((letter for letter in ",;\t" if lines and letter in lines[0]), ",")
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter) if row]
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {number} has {len(row)} cells, but the first line has {len(rows[0])}")
    return {column[0]: _to_array(column[1:]) for column in zip(*rows, strict=True)}


def _to_array(cells: Sequence[str]) -> Any:
    kinds: Sequence[Callable[[str], Any]] = (int, lambda cell: float(cell or "nan"))
    for kind in kinds:
        with suppress(ValueError, OverflowError):
            return np.array([kind(cell) for cell in cells])
    return np.array(cells)


_READERS: Mapping[str, Callable[[Path], Any]] = {
    "csv": _read_csv,
    "json": lambda path: json.loads(path.read_text(encoding="utf-8-sig")),
    "npy": lambda path: np.load(path, allow_pickle=False),
    "nc": lambda path: importlib.import_module("xarray").open_dataset(path),  # other runs do not need xarray
    "": _read_text,
}

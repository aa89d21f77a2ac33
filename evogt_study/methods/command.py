"""Run a program as a method: fill in its command and its templates, and read the values that it writes.

A study with `command` has the method whose reference is the canonical JSON of a `CommandSpec`.  Its parameters are the
names in braces, ``{beta}`` or ``{beta:.3g}``, in the command, the templates and the names of files that are read.
"""

from __future__ import annotations

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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime, time
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from evogt_study.errors import ReturnError, RunError, StudyError, shorten
from evogt_study.methods.current_run import make_own_folder
from evogt_study.schema.values import canonical_json, text_hash
from evogt_study.storage.untrusted import hash_file, read_bytes

STDOUT = "stdout"
"""The standard output of a program, as a file that `read` names, and its name in the folder of a run."""
TEMPLATE_SUFFIX = ".tmpl"
_MAX_OUTPUT = 16 * 2**10
"""Bytes of the standard output that enter the output of a run, if `read` does not name it."""
_FIELD = re.compile(r"\{(\{[^{}]*\})\}|\{([^\W\d]\w*)(?::([^{}]*))?\}")
"""A parameter with its format, or text in double braces, which stands for the same text in single braces."""
_SOURCE = re.compile(r"(?P<file>stdout|.+?\.(?P<kind>csv|json|npy|nc))(?::(?P<key>[^\[\]]+))?(?:\[(?P<index>-?\d+)\])?")
_CONTAINERS = ("apptainer", "singularity")


@dataclass(frozen=True)
class CommandSpec:
    """The keys of a study that say how its program runs; see `StudyModel`."""

    command: str
    template: tuple[str, ...] = ()
    read: tuple[tuple[str, str], ...] = ()
    shell: bool = False
    container: str = ""
    keep: bool = False

    @property
    def reference(self) -> str:
        """The name of the method in the code of a study."""
        return canonical_json(asdict(self))

    @staticmethod
    def of(reference: str) -> CommandSpec:
        """Return the command with this reference."""
        given = json.loads(reference)
        read = tuple((name, source) for name, source in given.pop("read"))
        return CommandSpec(**{**given, "template": tuple(given["template"]), "read": read})

    @property
    def name(self) -> str:
        """The name of the program."""
        return PurePosixPath(self.words[0]).stem

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The program and its arguments, with parameters in braces.  Raises StudyError."""
        try:
            words = tuple(shlex.split(self.command))
        except ValueError as error:
            raise StudyError(f"`command` must be a program and its arguments, got {self.command!r}: {error}") from None
        if not words or (_FIELD.search(words[0]) and not self.shell):
            raise StudyError(f"`command` must begin with the name of a program, got {self.command!r}")
        return words


def is_command(reference: str) -> bool:
    """Return True for the reference of a `CommandSpec`."""
    return reference.startswith("{")


@dataclass(frozen=True)
class ReadSource:
    """A place in `read`: a file with a column of csv, keys of json or a variable of nc, and an index of an array."""

    name: str
    file: str
    kind: str
    key: str
    index: int | None

    @staticmethod
    def of(name: str, text: str) -> ReadSource:
        """Read the text of a place.  Raises StudyError."""
        match = _SOURCE.fullmatch(text)
        if match is None or (match["kind"] == "csv" and not match["key"]) or (match["kind"] == "npy" and match["key"]):
            wanted = 'FILE.csv:COLUMN, FILE.json:KEY, FILE.npy, FILE.nc:VARIABLE or "stdout"'
            raise StudyError(f"`{name}` must be {wanted}, got {text!r} (read.{name})")
        path = PurePosixPath(match["file"])
        if path.is_absolute() or ".." in path.parts:
            raise StudyError(f"`{name}` must be a file in the folder of the run, got {text!r} (read.{name})")
        index = None if match["index"] is None else int(match["index"])
        file = STDOUT if path.stem == STDOUT and len(path.parts) == 1 else match["file"]
        return ReadSource(name, file, match["kind"] or "", match["key"] or "", index)


@dataclass(frozen=True)
class Program:
    """A command of the study in `folder`: called with parameters by name, it returns the values that it reads."""

    command: CommandSpec
    folder: Path
    depends: tuple[str, ...] = ()
    expected: tuple[tuple[str, str], ...] = ()
    """Hashes of its files when the study was read."""

    @cached_property
    def sources(self) -> tuple[ReadSource, ...]:
        """Where the values are that it reads."""
        return tuple(ReadSource.of(*each) for each in self.command.read)

    @cached_property
    def templates(self) -> Mapping[str, tuple[str, str]]:
        """The text of each template, and the name of the file that it becomes.  Raises StudyError."""
        found = {}
        for name in self.command.template:
            path = self._path_of(name)
            try:
                text = read_bytes(path).decode()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is no UTF-8"
                raise StudyError(f"`template` must name readable text files, got {name}: {reason}") from None
            found[name] = text, path.name.removesuffix(TEMPLATE_SUFFIX)
        return found

    def _path_of(self, word: str) -> Path:
        return Path(os.path.normpath(self.folder / word))

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """Files of the study that the command names, with the program.  Raises StudyError if it is none."""
        found = {}
        for number, word in enumerate(self.command.words):
            path = self._path_of(word)
            if word in self.templates or _FIELD.search(word):
                continue
            with suppress(OSError, ValueError):  # of a word that is too long for a name
                if path.is_file() and (number or "/" in word):
                    found[word] = path
        self._check_program(self.command.words[0], found)
        if self.command.container:
            image = self._path_of(self.command.container)
            if not image.is_file():
                raise StudyError(f"`container` must be the file of an image, got {self.command.container!r}")
            found[self.command.container] = image
        return found

    def _check_program(self, program: str, found: Mapping[str, Path]) -> None:
        if self.command.shell or self.command.container:
            return
        if program in found:
            if not os.access(found[program], os.X_OK):
                remedy = f"make it executable with `chmod +x {shlex.quote(program)}`"
                raise StudyError(f"`command` must name a program, got {program}, which cannot be executed; {remedy}")
        elif "/" in program:
            raise StudyError(
                f"`command` must name a program, but there is no file {self._path_of(program)}; compile it"
            )
        elif shutil.which(program) is None:
            beside = f"; write ./{program}" if self._path_of(program).is_file() else ""
            raise StudyError(f"`command` must name a program, got {program}, which is not on the PATH{beside}")

    def hash_files(self) -> dict[str, str]:
        """Return the hash of each file that the command names, of its templates and of `depends`."""
        paths = {**self.files, **{name: self._path_of(name) for name in (*self.templates, *self.depends)}}
        try:
            return {name: _hash(str(path), *_state(path)) for name, path in paths.items()}
        except OSError as error:
            raise StudyError(f"`command` must name readable files, got {error.filename}: {error.strerror}") from None

    @property
    def content(self) -> str:
        """Hash of everything that decides what it computes: paths count by the content of the files."""
        command, hashes = self.command, self.hash_files()
        parts: dict[str, Any] = {
            "command": [hashes.get(word, [word]) for word in command.words],
            "template": [[hashes[name], file] for name, (_, file) in self.templates.items()],
            "read": sorted(command.read),
        }
        if command.shell:
            parts["command"] = [command.command, sorted(hashes[name] for name in self.files)]
        if command.container:
            parts["container"] = hashes[command.container]
        return text_hash(canonical_json(parts))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its parameters, in the order in which they occur."""
        command = self.command.command
        texts = [command.replace("${", "") if self.command.shell else command]
        texts += [text for text, _ in self.templates.values()] + [source.file for source in self.sources]
        return tuple(dict.fromkeys(match[2] for text in texts for match in _FIELD.finditer(text) if match[2]))

    def check(self) -> None:
        """Raise StudyError for a mistake that no value of a parameter can mend."""
        _ = self.sources
        if "rng" in self.names:
            raise StudyError("`command` must have {seed} in place of {rng}, which is an object of Python")
        if self.command.shell:
            parse_shell(self.command.command)
            for word in self.files:
                if word.startswith("../"):
                    raise StudyError(f"`command` must name files below the folder of the study, got {word}")
        for text in (self.command.command, *(text for text, _ in self.templates.values())):
            for match in _FIELD.finditer(text):
                # the format of a date has "%"
                if match[3] and "%" not in match[3] and not any(_has_format(each, match[3]) for each in (1.0, 1, "")):
                    raise StudyError(f"`{match[2]}` must have a format such as {{{match[2]}:.3g}}, got {match[0]}")

    @cached_property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.names])

    def __call__(self, **values: Any) -> Any:
        """Run the program in the folder of the run, and return the values that it has written.

        Raises RunError if the program fails, and ReturnError if a value is not found.
        """
        changed = [name for name, content in self.hash_files().items() if (name, content) not in self.expected]
        if changed:  # a run must not have the key of another program
            raise RunError(f"{', '.join(changed)} changed since the study was read. Run the study again")
        folder = make_own_folder()
        self._fill_folder(folder, values)
        with (folder / STDOUT).open("wb") as output:
            code = _call(self._make_arguments(values), folder, output)
        if code:
            raise RunError(f"exit code {code}" if code > 0 else f"signal {-code}, {signal.Signals(-code).name}")
        sources = [(each, folder / _fill(each.file, values)) for each in self.sources]
        if not self.sources:
            return _parse_text((folder / STDOUT).read_text(errors="replace"))
        if all(each.file != STDOUT for each in self.sources):
            _print_file(folder / STDOUT)
        tables: dict[Path, Any] = {}
        return {each.name: _read_value(each, path, tables) for each, path in sources}

    def _fill_folder(self, folder: Path, values: Mapping[str, Any]) -> None:
        """Link the files of the study that lie in its folder, and write the templates."""
        for word in (*self.files, *self.depends):
            path = PurePosixPath(os.path.normpath(word))
            if not path.is_absolute() and ".." not in path.parts:
                (folder / path.parent).mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    (folder / path).symlink_to(self._path_of(word))
        for text, name in self.templates.values():
            (folder / name).write_bytes(_fill(text, values).encode())

    def _make_arguments(self, values: Mapping[str, Any]) -> list[str]:
        """Return the program and its arguments for these values."""
        prefix = []
        if self.command.container:
            runtime = next(filter(shutil.which, _CONTAINERS), _CONTAINERS[0])
            image = str(self._path_of(self.command.container))
            prefix = [runtime, "exec", "--bind", str(self.folder), image]
        if self.command.shell:
            text, fields = parse_shell(self.command.command)
            return [*prefix, "/bin/sh", "-c", text, "sh", *(_fill(field, values) for field in fields)]
        arguments = []
        for word in self.command.words:
            if word in self.templates:
                arguments.append(self.templates[word][1])
            elif word in self.files and ".." in PurePosixPath(word).parts:
                arguments.append(str(self.files[word]))
            else:
                arguments.append(_fill(word, values))
        return prefix + arguments


def _has_format(value: Any, text: str) -> bool:
    try:
        format(value, text)
    except (ValueError, TypeError):
        return False
    return True


def _state(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


@lru_cache(maxsize=256)
def _hash(path: str, *state: int) -> str:
    """Return the hash of a file; `state` shows that it has not changed."""
    return hash_file(Path(path))


def format_value(name: str, value: Any, text: str = "") -> str:
    """Return a value as a program receives it: floats exactly, booleans and lists as in JSON.  Raises RunError."""
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind in "biuf" else value
    try:
        if text:
            return format(value, text)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (list, tuple, dict, np.ndarray)):
            return json.dumps(value.tolist() if isinstance(value, np.ndarray) else value, ensure_ascii=False)
    except (ValueError, TypeError) as error:
        raise RunError(f"`{name}` cannot be written as {{{name}{':' if text else ''}{text}}}: {error}") from None
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, (int, str, Path, np.datetime64, np.timedelta64)):
        return str(value)
    raise RunError(f"`{name}` must be a number, string, boolean, date or list for a program, got {shorten(value)}")


def _fill(text: str, values: Mapping[str, Any]) -> str:
    """Return the text with values in place of the parameters in braces."""
    return _FIELD.sub(lambda match: match[1] or format_value(match[2], values[match[2]], match[3] or ""), text)


@lru_cache(maxsize=64)
def parse_shell(command: str) -> tuple[str, tuple[str, ...]]:
    """Return the text for a shell, with `"${1}"` in place of the first parameter, and the parameters in braces.

    So the shell reads no value as its own text.  Raises StudyError for a parameter that would be no argument.
    """
    parts, fields, quote, position = list[str](), list[str](), "", 0
    while position < len(command):
        match = _FIELD.match(command, position)
        letter = command[position]
        if match and match[2] and command[position - 1 : position] != "$":
            fields.append(match[0])
            around = {"": '"', '"': "", "'": "'\""}[quote]
            parts.append(f"{around}${{{len(fields)}}}{around[::-1]}")
            position = match.end()
            continue
        if match and match[1]:
            parts.append(match[1])
            position = match.end()
            continue
        step = 2 if letter == "\\" and quote != "'" else 1
        if command.startswith("<<", position) and not quote:
            raise StudyError("`command` must have no `<<`; write a script")
        if quote == '"' and (letter == "`" or command.startswith("$(", position)):
            step = _find_end(command, position) - position
            if match := _FIELD.search(command[position : position + step]):
                raise StudyError(f"`command` must have no parameter in $(...) in quotes, got {match[0]}; use a script")
        elif letter in ("'", '"') and quote in ("", letter):
            quote = "" if quote else letter
        parts.append(command[position : position + step])
        position += step
    return "".join(parts), tuple(fields)


def _find_end(command: str, position: int) -> int:
    """Return the end of the command substitution that begins here, in double quotes."""
    if command[position] == "`":
        return command.find("`", position + 1) + 1 or len(command)
    depth = 0
    for end in range(position, len(command)):
        depth += (command[end] == "(") - (command[end] == ")")
        if command[end] == ")" and not depth:
            return end + 1
    return len(command)


def _call(arguments: list[str], folder: Path, output: Any) -> int:
    """Run a program and return its exit code.  Its standard error is the one of this process."""
    try:
        # in UTF-8 whatever the locale is
        encoded = [argument.encode() for argument in arguments]
        process = subprocess.Popen(encoded, cwd=folder, stdin=subprocess.DEVNULL, stdout=output)  # noqa: S603  # its task
    except (OSError, ValueError) as error:  # such as a NUL character, or arguments that are too long
        raise RunError(f"{arguments[0]} cannot be started: {getattr(error, 'strerror', None) or error}") from None
    try:
        return process.wait()
    except BaseException:  # Ctrl-C in this process
        process.kill()
        process.wait()
        raise


def _print_file(path: Path) -> None:
    """Print the end of a file: as much as the output of a run keeps."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MAX_OUTPUT))
        sys.stdout.write(file.read().decode(errors="replace"))


# --- values -----------------------------------------------------------------------------------------------------------


def _read_value(source: ReadSource, path: Path, tables: dict[Path, Any]) -> Any:
    """Return the value at a place.  tables: files that were read.  Raises ReturnError."""
    try:
        if source.kind == "nc":
            return _select(source, _read_netcdf(path, source.key))
        if path not in tables:
            tables[path] = _READERS[source.kind](path)
        value = tables[path]
        if source.kind == "csv":
            value = _get(value, source.key)
            # the name of the file without parameters: all runs have one dimension
            stem = re.sub(r"\W+", "_", _FIELD.sub("", PurePosixPath(source.file).stem)).strip("_")
            return _select(source, value) if source.index is not None else ((f"{stem or 'file'}_row",), value)
        for key in source.key.split(".") if source.key else ():
            value = _get(value, key) if isinstance(value, Mapping) else value[int(key)]
        return _select(source, value)
    except FileNotFoundError:
        raise ReturnError(f"the program wrote no {path.name} (read.{source.name})") from None
    except KeyError as error:
        raise ReturnError(f"{path.name} has no {error.args[0]} (read.{source.name})") from None
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise ReturnError(f"{path.name} cannot be read: {error} (read.{source.name})") from None


def _get(values: Mapping[str, Any], key: str) -> Any:
    if key not in values:
        raise KeyError(f"`{key}`, only {', '.join(values)}")
    return values[key]


def _select(source: ReadSource, value: Any) -> Any:
    if source.index is None:
        return value
    return value[source.index] if np.ndim(value) else value


def _parse_text(text: str) -> Any:
    """Return the JSON that a program printed, a number, numbers between blanks, or the text itself."""
    text = text.strip()
    if not text:
        raise ReturnError("the program printed nothing, and the study has no [read]")
    for parse in (json.loads, float, lambda line: [float(each) for each in line.split()]):
        with suppress(ValueError, RecursionError):
            return parse(text)
    return text


def _read_csv(path: Path) -> dict[str, Any]:
    """Return the columns of a table by their names in its first line."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        delimiter = next((letter for letter in ",;\t" if letter in first), ",")
        rows = csv.reader(chain([first], file), delimiter=delimiter)
        names, *lines = [[cell.strip() for cell in row] for row in rows if row] or [[]]
    for number, line in enumerate(lines, 1):
        if len(line) != len(names):
            raise ValueError(f"row {number} has {len(line)} cells, and the first line {len(names)}")
    columns = zip(*lines, strict=True) if lines else [()] * len(names)
    return {name: _to_array(cells) for name, cells in zip(names, columns, strict=True)}


def _to_array(cells: tuple[str, ...]) -> Any:
    if not cells:
        return np.zeros(0)
    kinds: tuple[Callable[[str], Any], ...] = (int, lambda cell: float(cell or "nan"))
    for kind in kinds:
        with suppress(ValueError, OverflowError):
            return np.array([kind(cell) for cell in cells])
    return np.array(cells)


def _read_netcdf(path: Path, key: str) -> Any:
    xr = importlib.import_module("xarray")  # only if a study reads it: workers import no xarray
    if not path.exists():
        raise FileNotFoundError(path)
    with xr.open_dataset(path) as data:
        return _get({str(name): data[name] for name in data.variables}, key).load() if key else data.load()


_READERS: Mapping[str, Callable[[Path], Any]] = {
    "csv": _read_csv,
    "json": lambda path: json.loads(path.read_text(encoding="utf-8-sig")),
    "npy": lambda path: np.load(path, allow_pickle=False),
    "": lambda path: _parse_text(path.read_text(encoding="utf-8-sig")),
}

"""Load the user code that a study names as ``file.py:attribute``, ``package.module:attribute`` or an entry point.

The package imports only the code that the study names.  A result stores the name, the fingerprint and the parameters of
the code.  Commands therefore read, merge and check a result without the code.
"""

from __future__ import annotations

import dis
import functools
import gc
import hashlib
import importlib
import inspect
import io
import json
import operator
import pickle
import random
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.metadata import entry_points
from itertools import accumulate
from os.path import normpath
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Generic, TypeVar

import cloudpickle
import numpy as np

from evogt_study.errors import StudyError, cut, shorten
from evogt_study.methods import python_files
from evogt_study.methods.command import Program, is_command
from evogt_study.methods.current_run import CACHED_TYPE, GLOBAL_GENERATORS
from evogt_study.methods.fingerprint import UsedCode, fingerprint_file, fingerprint_object
from evogt_study.methods.protocol import find_problem_kind, is_problem
from evogt_study.methods.python_files import Contents, find_function, is_local, iterate_codes
from evogt_study.schema.parameters import Parameter, read_anything
from evogt_study.schema.values import WANTED, dump_json, from_json, is_composite, make_coordinate, to_canonical
from evogt_study.storage.files import hash_file, read_bytes

Part = TypeVar("Part")
GROUP = "evogt_study.methods"
"""Group of entry points with which a package registers methods.  A method is a function or a subclass of `Method`."""
MAX_SOURCE_CHARACTERS = 20_000
"""Maximum number of characters of a function's source that a result stores."""
_module_contents: dict[str, object] = {}
"""Fingerprint and file hashes of each imported user module, by name of the module."""
_import_folder = [""]
"""Folder of the user code that this process imported last, as the only entry."""
_imported_file: ContextVar[str] = ContextVar("imported_file", default="")
"""File or module that this process is importing for a study, or ""."""


class CodeKind(Enum):
    """Form in which a worker receives user code.  Code of the kind `DECLARED` is known by its declaration only."""

    FILE = "file"
    MODULE = "module"
    OBJECT = "object"
    COMMAND = "command"
    DECLARED = "declared"


@dataclass(frozen=True, kw_only=True)
class UserCode:
    """User code, with all data that a worker needs to load it.

    `reference` is the name of the code in the study.  `module` is the name of an installed module with the code, or "".
    Paths in parameters are relative to `folder`, the folder of the study.  The whole content of the files in `depends`
    enters the fingerprint.

    `files` is the code hash, with one hash for each file that the code imports.  `verify` and `try` execute the code
    only if the code hash is unchanged.  `content` is the hash of the source that the code uses.  `used` lists the other
    files with this source.  `recorded` is a fingerprint from a result, which replaces the computed fingerprint.  If
    `is_checked` is true, the code can import only files with a recorded hash.  `objects` holds pickled parameter values
    by fingerprint.
    """

    kind: CodeKind
    reference: str
    attribute: str
    module: str = ""
    path: str = ""
    folder: str = "."
    depends: Contents = ()
    files: Contents = ()
    content: str = ""
    used: Contents = ()
    recorded: str = ""
    is_checked: bool = False
    objects: tuple[tuple[str, bytes], ...] = ()
    text: str = ""
    payload: bytes = b""
    declaration: str = ""

    def load(self) -> Any:
        """Return the function, class or problem of the code.  Raises StudyError if the import fails."""
        if self.kind is CodeKind.DECLARED:
            return _make_declared(self.reference, self.declared)
        if self.kind is CodeKind.OBJECT:
            return _unpickle(self.payload, self.files)
        if self.kind is CodeKind.COMMAND:
            depends = [name for name, _ in self.depends]
            return Program(**json.loads(self.reference), folder=Path(self.folder), depends=depends, expected=self.files)
        place = self.module or self.path
        if self.module and _find_installed(self.module, self.attribute, self.reference)[-1] != self.content:
            raise StudyError(f"{place} differs between a worker and the client. Install the same version on both")
        with self.enable_imports():
            outer = _imported_file.set(place)
            try:
                if self.module:
                    module: Any = _import_module(self.module, (self.content, *self.files))
                else:  # without the `__getattr__` of a file
                    module = SimpleNamespace(**_run_file(self.path, self.text, (*self.neighbours, *self.used)))
            except (Exception, SystemExit) as error:  # user code can raise any exception
                raise StudyError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
            finally:
                _imported_file.reset(outer)
            try:
                found = operator.attrgetter(self.attribute)(module)
            except AttributeError:
                raise StudyError(f"{place} has no `{self.attribute}`") from None
        thing = find_function(found)  # a function of the standard library could execute shell commands
        if isinstance(thing, FunctionType):
            _check_not_standard(str(thing.__globals__.get("__name__")), self.reference)  # `__module__` may be any text
        elif callable(thing):
            _check_not_standard(str(getattr(thing, "__module__", None) or type(thing).__module__), self.reference)
        check_generators(found, self.reference)
        return found

    def enable_imports(self) -> AbstractContextManager[None]:
        """Return a context in which the code can import other modules of its folder."""
        if self.kind is not CodeKind.FILE:
            return nullcontext()
        is_open = _import_folder[0] == sys.path[0] == self.folder_of_file and sys.dont_write_bytecode
        return nullcontext() if is_open and not self.is_checked else self._open_folder()

    @contextmanager
    def _open_folder(self) -> Iterator[None]:
        folder = self.folder_of_file
        if _import_folder[0] != folder:  # modules of another folder may have the same names
            _forget_modules(Path(folder), {path for path, _ in self.neighbours})
            _import_folder[0] = folder
        known = {**dict(self.neighbours), self.path: dict(self.files).get("", "")}
        finders = [_CheckedFiles(folder, known)] if self.is_checked else []
        sys.meta_path[:0] = finders
        sys.path.insert(0, folder)
        # Python misses a change within one second if a compiled file exists
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            yield
        finally:
            sys.meta_path[:] = [each for each in sys.meta_path if each not in finders]
            with suppress(ValueError):  # user code may have changed sys.path
                sys.path.remove(folder)
            sys.dont_write_bytecode = written

    @cached_property
    def folder_of_file(self) -> str:
        """Folder of the code file, cached because its computation takes as long as a trivial run."""
        return str(Path(self.path).parent)

    @cached_property
    def neighbours(self) -> Contents:
        """Path and hash of each imported file below the folder of the code file."""
        folder = Path(self.path).parent
        return tuple((normpath(folder / name), content) for name, content in self.files if name)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all source that the code depends on, without its name in the study."""
        return self.recorded or python_files.add_depends(self.content, self.depends, Path(self.folder))

    @property
    def is_pickled(self) -> bool:
        """True for the code or the declaration of a function from a script or a notebook."""
        return self.kind is CodeKind.OBJECT or (self.kind is CodeKind.DECLARED and "source" in self.declared)

    @property
    def sources(self) -> tuple[str, ...]:
        """Texts of the code and of its imports that enter the hash of the plan."""
        if self.kind is CodeKind.DECLARED:
            return (self.fingerprint,)
        recorded = (self.recorded,) if self.recorded else ()
        return (self.text or self.fingerprint, json.dumps([self.depends, self.files]), *recorded)

    @cached_property
    def declared(self) -> dict[str, Any]:
        """Declaration of the code in a result: name, fingerprint, file hashes, and parameters or a problem."""
        if self.kind is CodeKind.DECLARED:
            return dict(json.loads(self.declaration))
        known: dict[str, Any] = {"name": self.attribute, "fingerprint": self.fingerprint, "files": dict(self.files)}
        loaded = self.load()
        if is_problem(loaded):
            return {**known, "problem": loaded.content, "kind": loaded.problem_kind}
        known["parameters"] = []
        for each in read_signature(loaded, self.attribute).values():  # null for a default that a study cannot state
            default = None if is_composite(each.default) else json.loads(dump_json(each.default))
            known["parameters"].append([each.name, each.optional, default])
        return known | ({"source": self.text[:MAX_SOURCE_CHARACTERS]} if self.kind is CodeKind.OBJECT else {})


def find_named_code(reference: str, folder: Path, depends: Sequence[str] = ()) -> UserCode:
    """Find the code of a file, module, entry point or command by its reference.  Raises StudyError."""
    if is_command(reference):
        program = Program(**json.loads(reference), folder=folder.resolve(), depends=depends)
        program.check()
        return UserCode(
            kind=CodeKind.COMMAND, reference=reference, attribute=Path(program.words[0]).stem,
            folder=str(folder.resolve()), depends=python_files.hash_depends(depends, folder), content=program.content,
            files=tuple(sorted(program.hash_files().items())), text=reference,
        )  # fmt: skip
    file, _, attribute = reference.rpartition(":")
    kind, module, package, used = CodeKind.FILE, "", "", tuple[tuple[str, str], ...]()
    if file.endswith(".py"):
        if not attribute.isidentifier():
            raise StudyError(f"`{reference}` must have the form file.py:name")
        try:
            source, path = read_bytes(folder / file).decode("utf-8-sig"), (folder / file).resolve()
        except (OSError, UnicodeDecodeError) as error:
            reason, given = getattr(error, "strerror", None) or error, shorten(str(folder / file), 200)
            raise StudyError(f"`{reference}` must name a readable Python file, got {given}: {reason}") from None
        content, used = _hash_source(source, attribute, path, path.parent, "")
        root = path.parent
    else:
        places = [reference] if ":" in reference else [e.value for e in entry_points(group=GROUP, name=reference)]
        if not places:
            raise StudyError(f"no installed package has the entry point `{reference}` of the group {GROUP}")
        kind, (module, _, attribute) = CodeKind.MODULE, places[0].partition(":")
        path, source, root, package, content = _find_installed(module, attribute, reference)
    return UserCode(
        kind=kind, reference=reference, attribute=attribute, module=module, path=str(path),
        folder=str(folder.resolve()), depends=python_files.hash_depends(depends, folder), content=content, used=used,
        files=python_files.hash_code_files(path, source, root, package or module, folder, depends), text=source,
    )  # fmt: skip


def make_user_code(function: Any, folder: Path) -> UserCode:
    """Return the user code of a Python function.  Raises StudyError if workers cannot receive the function."""
    module, inner, text = getattr(function, "__module__", None) or "__main__", function, ""
    while isinstance(inner, functools.partial):
        inner = inner.func
    kind = inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner)
    with suppress(OSError, TypeError):  # the source may be unknown
        text = inspect.getsource(kind)
    # Python cannot look up a nested function by its module
    is_installed = inspect.isfunction(function) and not is_local(sys.modules.get(module))
    if is_installed and function.__qualname__.isidentifier():
        return find_named_code(f"{module}:{function.__qualname__}", folder)
    name = str(getattr(inner, "__qualname__", None) or kind.__qualname__)
    content, payload, used = pickle_object(function, name, "a function")
    path, attribute = ("", name) if used.root is None else (used.root.scope.path, str(used.root.name))
    paths = [Path(str(module.__file__)).resolve() for module in used.whole.values()]
    helpers = {each.name: hash_file(each) for each in paths if each.is_file()}
    return UserCode(
        kind=CodeKind.OBJECT, reference=f"{module}:{attribute}", attribute=attribute, path=path,
        folder=str(folder.resolve()), files=tuple(sorted(helpers.items())), content=content, text=text,
        payload=payload,
    )  # fmt: skip


def find_declared_code(reference: str, folder: Path, text: str) -> UserCode:
    """Return the declaration of code in a result as user code.  Raises StudyError for an invalid declaration."""
    attribute = reference.rpartition(":")[2].partition(" (")[0]  # without the number of a second function
    try:
        content = json.loads(text)["codes"][reference]
        name = str(content["name"])
        if name != attribute and ":" in reference and not is_command(reference):
            raise ValueError(f"it declares {name!r}")
        found = UserCode(
            kind=CodeKind.DECLARED, reference=reference, attribute=name, folder=str(folder),
            declaration=json.dumps(content), files=tuple(sorted(content["files"].items())),
            recorded=str(content["fingerprint"]),
        )  # fmt: skip
        found.load()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise StudyError(f"the result must declare `{reference}`, got {shorten(str(error))}") from None
    return found


def _make_declared(reference: str, content: Mapping[str, Any]) -> Any:
    """Return the declared problem, or a function with the declared parameters that raises StudyError when called."""
    if "problem" in content:
        return find_problem_kind({"kind": content["kind"]}).make(content["problem"])

    def unknown(**_: Any) -> Any:
        raise StudyError(f"{reference} has only a declaration, so it cannot run. Use the study file with its code.")

    kind, arguments = inspect.Parameter.KEYWORD_ONLY, []
    for name, optional, default in content["parameters"]:
        known = ... if default is None else from_json(default)  # null: the value of the default is unknown
        arguments.append(inspect.Parameter(name, kind, default=known if optional else inspect.Parameter.empty))
    vars(unknown)["__signature__"] = inspect.Signature(arguments)
    return unknown


def read_signature(function: Any, reference: str) -> dict[str, Parameter]:
    """Return a parameter for each argument of a function.  Raises StudyError for ``*args`` or ``**kwargs``."""
    if not callable(function):
        raise StudyError(f"`{reference}` must be a function, got {type(function).__name__}")
    try:
        arguments = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise StudyError(f"`{reference}` must be a function with named arguments: {error}") from None
    declared = {}
    for name, argument in arguments.items():
        if argument.kind not in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY):
            raise StudyError(f"`{reference}` must have named arguments only, got {argument}")
        default, has_default = None, argument.default is not argument.empty
        with suppress(ValueError, RecursionError):  # a study cannot state this default
            if has_default and make_coordinate([known := to_canonical(argument.default)]):
                default = known
        declared[name] = Parameter(name, WANTED, read_anything, default=default, optional=has_default)
    return declared


@lru_cache(maxsize=32)
def _run_file(path: str, source: str, beside: Contents) -> dict[str, Any]:
    """Execute a file as a module and return its global names.  The cache depends on the imported files `beside`."""
    name = f"_evogt_user_{hashlib.sha256(repr((path, source, *beside)).encode()).hexdigest()[:16]}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses and pickle look up the module of a class by name
    _forget_modules(Path(path).parent, {each for each, _ in beside})
    try:
        exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102  # the study names this file
    except BaseException:
        del sys.modules[name]
        raise
    return vars(module)


@dataclass
class _CheckedFiles(MetaPathFinder):
    """Import finder that accepts a Python file of a folder only if its hash is recorded."""

    folder: str
    hashes: Mapping[str, str]

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return the import spec of a module.  Raises ImportError for a file in the folder without a recorded hash."""
        spec = PathFinder.find_spec(name, [self.folder] if path is None else path)
        if spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(self.folder):
            return None
        if spec.origin not in self.hashes:
            raise ImportError(f"{spec.origin} is not among the files that the result records")
        spec.loader = _CheckedFile(name, spec.origin)
        spec.loader.recorded = self.hashes[spec.origin]
        return spec


class _CheckedFile(SourceFileLoader):
    recorded = ""

    def get_code(self, fullname: str) -> CodeType:
        data = self.get_data(self.path)
        if hashlib.sha256(data).hexdigest() != self.recorded:
            raise ImportError(f"{self.path} has changed since it was checked")
        return compile(data, self.path, "exec", dont_inherit=True)


def _check_not_standard(module: str, reference: str, path: Path = Path()) -> None:
    """Raise StudyError if the name or the path of a module belongs to Python's standard library."""
    is_installed = {*path.parts} & {"site-packages", "dist-packages"}  # these may be inside its folder
    is_beside = path.is_relative_to(sysconfig.get_path("stdlib")) and not is_installed
    if is_beside or module.partition(".")[0] in {*sys.stdlib_module_names, *sys.builtin_module_names} - {"__main__"}:
        raise StudyError(
            f"`{reference}` must be code of the study or of an installed package, got the module {module} of Python's "
            "standard library. Write a function that calls it"
        )


def _forget_modules(folder: Path, paths: set[str]) -> None:
    """Remove the modules of the files `paths` from `sys.modules`, so that Python imports the files again."""
    names = {
        ".".join(Path(path).relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
        for path in paths
        if Path(path).is_relative_to(folder)
    }
    for name, module in sys.modules.copy().items():  # a copy, because other threads may import modules
        known = getattr(module, "__file__", None) in paths or (name in names and is_local(module))
        if known and name != "__main__":
            del sys.modules[name]
    importlib.invalidate_caches()


def _find_installed(module: str, attribute: str, reference: str) -> tuple[Path, str, Path, str, str]:
    """Return file, text, import folder and package of a module, and the fingerprint of its attribute."""
    _check_not_standard(module, reference)
    try:
        if not all(part.isidentifier() for part in module.split(".")):
            raise ImportError("this is not the name of a module")
        places, path = None, Path()
        for name in accumulate(module.split("."), "{}.{}".format):
            # `importlib.util.find_spec` would import the parent packages
            finders = () if places == () else sys.meta_path  # a module without a path has no submodules
            spec = next(filter(None, (each.find_spec(name, places) for each in finders)), None)
            if spec is None:
                raise ImportError("Python finds no such module")
            places, path = spec.submodule_search_locations or (), Path(spec.origin or "")
        if not path.is_file():
            raise ImportError("the module has no file")
    except Exception as error:  # noqa: BLE001  # finders of other packages can raise any exception
        message = f"must have the form file.py:name or package.module:name, got {module!r}: {cut(str(error), 80)}"
        raise StudyError(f"`{reference}` {message}") from None
    _check_not_standard(module, reference, path)
    source = python_files.read_source(path) if path.suffix == ".py" else ""
    package = python_files.find_package(module, path)
    root = path.parents[len(package.split("."))] if package else path.parent
    content = _hash_source(source, attribute, path, root, package)[0] if source else python_files.hash_content(path)
    return path, source, root, package, content


def _hash_source(source: str, attribute: str, path: Path, root: Path, package: str) -> tuple[str, Contents]:
    """Return the fingerprint of `attribute` and the other files that it uses.  Raises StudyError for invalid Python."""
    try:
        return fingerprint_file(source, attribute, path, root, package)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise StudyError(f"{path} cannot be imported: {type(error).__name__}: {error}") from None


def check_no_import(name: str) -> None:
    """Raise StudyError if a study is importing a file, because the file must not call the function `name`."""
    if file := _imported_file.get():
        raise StudyError(
            f"`{name}` must not be called when a study imports {file}. Put the call below `if __name__ == '__main__':`"
        )


def _import_module(module: str, content: object) -> ModuleType:
    """Import a module, or import a changed user module again."""
    top = module.partition(".")[0]
    if _module_contents.setdefault(module, content) != content and is_local(sys.modules.get(top)):
        for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
            del sys.modules[name]
        importlib.invalidate_caches()
    _module_contents[module] = content
    return importlib.import_module(module)


# the bytes come from the client process of the user
_unpickle = lru_cache(maxsize=32)(lambda payload, files: pickle.loads(payload))  # noqa: S301


def pickle_object(value: Any, name: str, kind: str = "an object") -> tuple[str, bytes, UsedCode]:
    """Return fingerprint, pickled bytes and used code of an object.  Raises StudyError if pickling fails."""
    check_generators(value, name)
    with ExitStack() as stack, io.BytesIO() as file:
        try:
            content, used = fingerprint_object(value)
            # pickle the code of these modules, because workers may not have their files
            for module in [known for each, known in used.modules.items() if each not in used.whole]:
                if module.__name__ in sys.modules:
                    cloudpickle.register_pickle_by_value(module)
                    # the registration is global: other code of the process may pickle too
                    stack.callback(cloudpickle.unregister_pickle_by_value, module)
            _Pickler(file).dump(value)
            return content, file.getvalue(), used
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise StudyError(
                f"`{name}` must be {kind} that can be sent to workers, but it uses an object that cannot: "
                f"{shorten(str(error))}. Create this object inside the function"
            ) from None


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickler that sends cached user functions with their code, because workers cannot import them by name."""

    def reducer_override(self, value: Any) -> Any:
        """Pickle a cached function or property by its function, without the cached values."""
        if isinstance(value, functools.cached_property):  # the property has a lock in Python 3.11
            return functools.cached_property, (value.func,), {"attrname": value.attrname}
        if isinstance(value, CACHED_TYPE) and is_local(sys.modules.get(value.__module__ or "")):
            return _make_cached, (value.__wrapped__, value.cache_parameters())
        return super().reducer_override(value)


def _make_cached(function: Any, parameters: Mapping[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


@dataclass(frozen=True)
class MethodSpec:
    """Text and scalars from which a worker creates the method.

    `references` lists the user functions that compute reference solutions.  `common` has the type
    `evogt_study.methods.current_run.Common`.  Each entry of `kinds` holds a parameter, the name of a class from
    `Parameter.kinds`, and a hash of the parameters of the class.
    """

    method: str | UserCode | Alternatives[str | UserCode]
    problem: object | Alternatives[object] | None
    output: Output | None
    references: tuple[UserCode, ...] = ()
    common: str | tuple[str, ...] = "all"
    kinds: tuple[tuple[str, str, int], ...] = ()

    @property
    def codes(self) -> tuple[UserCode, ...]:
        """User code of the method, the problem and the references."""
        found = dict[str, UserCode]()
        self.replace_codes(lambda code: found.setdefault(code.reference, code))
        return tuple(found.values())

    @property
    def declaration(self) -> str:
        """Declarations of all user code as JSON, or "" without user code."""
        known = {code.reference: code.declared for code in self.codes}
        return dump_json({"codes": known}) if known else ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Texts of all user code that enter the hash of the plan."""
        return tuple(text for code in self.codes for text in code.sources)

    def replace_codes(self, change: Callable[[UserCode], UserCode]) -> MethodSpec:
        """Return the spec after `change` replaced each user code."""

        def change_each(whole: Any) -> Any:
            if isinstance(whole, Alternatives):
                return Alternatives(tuple((label, change_each(part)) for label, part in whole.options))
            return change(whole) if isinstance(whole, UserCode) else whole

        method, problem = change_each(self.method), change_each(self.problem)
        return replace(self, method=method, problem=problem, references=tuple(map(change, self.references)))


@dataclass(frozen=True)
class Output:
    """Outputs that a run records besides scalars.

    `times` is a number of times or a tuple of times.  `record` lists names of variables.  `grid` is the number of grid
    points of a field in each dimension.
    """

    times: int | tuple[float, ...] = 2
    record: tuple[str, ...] = ()
    grid: int = 65  # an odd number includes the midpoint, and a field of 65 x 65 numbers has 34 kB

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Canonical JSON of `record` and `grid` for the setup.  `grid` is null if a run records no field."""
        grid = str(self.grid) if "field" in self.record else "null"
        return {"record": dump_json(sorted(self.record)), "grid": grid}


@dataclass(frozen=True)
class Alternatives(Generic[Part]):
    """Methods or problems of a study, by axis value."""

    options: tuple[tuple[str, Part], ...]


# --- random generators ------------------------------------------------------------------------------------------------

GENERATOR_TYPES = (
    np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence, random.Random,
)  # fmt: skip
_LEAF_TYPES = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, ModuleType, CodeType)
MAX_OBJECTS = 100_000
"""Maximum number of objects in the search for generators, which takes 0.3 s.  A larger graph is a data set."""


def check_generators(function: Any, reference: str) -> None:
    """Raise StudyError if a function captures a random generator, because all workers would draw equal numbers."""
    waiting, seen = deque([("", function)]), dict[int, Any]()
    while waiting and len(seen) < MAX_OBJECTS:
        name, value = waiting.popleft()
        if isinstance(value, _LEAF_TYPES) or id(value) in seen:
            continue
        seen[id(value)] = value  # the value stays alive, so its id stays unique
        if isinstance(value, GENERATOR_TYPES):
            if not isinstance(value, random.SystemRandom) and not any(value is each for each in GLOBAL_GENERATORS):
                raise StudyError(
                    f"`{name or reference}`{f' of {reference}' if name else ''} holds a random generator, whose draws "
                    "every worker would repeat. Add an argument `rng` to the function, or create the generator inside "
                    "the function with np.random.default_rng(seed)"
                )
        elif isinstance(value, FunctionType):
            waiting.extend([*_list_captured(value), (name, vars(value))])
        elif isinstance(value, CACHED_TYPE):  # without its cached values
            waiting.append((name, vars(value)))  # `__wrapped__` and the attributes
        elif isinstance(value, np.ndarray):
            waiting.extend((name, each) for each in (value.ravel().tolist() if value.dtype.hasobject else ()))
            waiting.append((name, getattr(value, "__dict__", None)))  # of a subclass
        elif not isinstance(value, type) or is_local(sys.modules.get(value.__module__)):
            # compiled functions refer to the namespace of their module
            is_namespace = isinstance(value, dict) and "__builtins__" in value
            waiting.extend((name, each) for each in (() if is_namespace else gc.get_referents(value)))


def _list_captured(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the defaults, the closure values and the used globals of a function."""
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    yield from zip(positional[::-1], (function.__defaults__ or ())[::-1], strict=False)
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the variable may have no value yet
            yield name, cell.cell_contents
    if is_local(sys.modules.get(function.__module__ or "")):
        names, modules, attributes = set[str](), set[str](), set[str]()
        for inner in iterate_codes(code):
            attributes.update(inner.co_names)
            for each in dis.get_instructions(inner):  # only LOAD_GLOBAL shows the use of a global
                if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME"):
                    (modules if each.opname == "IMPORT_NAME" else names).add(str(each.argval))
        for name in modules - sys.modules.keys():  # neighbouring files that the function imports when it runs
            if python_files.find_module_file(Path(code.co_filename).parent, name) is not None:
                with suppress(Exception):  # the run shows the error
                    importlib.import_module(name)
        values = {name: function.__globals__[name] for name in names if name in function.__globals__}
        values |= {name: sys.modules[name] for name in modules if name in sys.modules}
        for name, value in values.items():
            yield from _list_used(name, value, attributes) if isinstance(value, ModuleType) else [(name, value)]


def _list_used(name: str, module: ModuleType, attributes: set[str]) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a user module whose names are in `attributes`."""
    if is_local(module):
        for each in sorted(attributes & vars(module).keys()):
            value = vars(module)[each]
            if isinstance(value, ModuleType):
                if value.__name__.startswith(f"{module.__name__}."):
                    yield from _list_used(f"{name}.{each}", value, attributes)
            else:
                yield f"{name}.{each}", value

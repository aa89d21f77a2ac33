"""Code that a user names on purpose: ``file.py:attribute``.  Nothing else is ever imported because a file says so.

What such a file declares is written into results, so that they are read, merged and checked without running it.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import sys
import tokenize
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from evogt_study.errors import StudyError, shortened
from evogt_study.numerics.quadrature import QuadratureRule
from evogt_study.problems import Statement
from evogt_study.schema.parameters import Parameter, anything
from evogt_study.schema.values import canonical, canonical_json

_LAYOUT = (tokenize.COMMENT, tokenize.NL)
_BLANK = {tokenize.INDENT: "indent", tokenize.NEWLINE: "newline"}  # whatever they are written with


@dataclass(frozen=True)
class PythonFile:
    """A Python file's path and text with the name of one thing in it.

    The text travels to the workers, so that they need no file system in common with the client.
    """

    path: str
    source: str
    attribute: str

    @staticmethod
    def named(reference: str, folder: Path) -> PythonFile:
        """Read ``file.py:attribute``, relative to `folder`.  Raises StudyError where there is no such file."""
        path, attribute = _parts(reference, folder)
        try:
            special = path.exists() and not path.is_file()
            source = "" if special else path.read_text(encoding="utf-8-sig")
            whole = str(path.resolve())
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of links
            raise StudyError(f"`{reference}` must name a readable Python file, got {shortened(error)}") from None
        if special:  # a pipe would be waited for, and a device may never end
            raise StudyError(f"`{reference}` must name a readable Python file, got a folder, pipe or device")
        return PythonFile(whole, source, attribute)

    @property
    def content(self) -> str:
        """Hash of the code's tokens: comments, blank lines and spacing do not count, nor do files that it imports."""
        return _hash_of_words(self.source)

    @property
    def declaration(self) -> str:
        """JSON text of what a `DeclaredFile` has to know: name, content, and parameters or formulas."""
        known = {"name": self.attribute, "content": self.content}
        loaded = self.load()
        if isinstance(loaded, Statement):
            return canonical_json({**known, "statement": loaded.content})
        parameters = signature_parameters(loaded, self.attribute).values()
        return canonical_json(
            {**known, "parameters": [[each.name, each.optional, each.default] for each in parameters]}
        )

    def load(self) -> Any:
        """The thing named.  Raises StudyError where the file does not run or does not have it."""
        try:
            names = vars(_module(self.path, self.source))
        except (Exception, SystemExit) as error:  # anything can go wrong in a user's file; it is the user's to read
            raise StudyError(f"{self.path} cannot be imported: {type(error).__name__}: {error}") from error
        if self.attribute not in names:
            raise StudyError(f"{self.path} has no `{self.attribute}`")
        return names[self.attribute]


@dataclass(frozen=True)
class DeclaredFile(PythonFile):
    """A Python file of which only the declaration is known, as a result holds it; nothing of it can be run."""

    text: str

    @staticmethod
    def declared(reference: str, folder: Path, text: str) -> DeclaredFile:
        """The file that ``file.py:attribute`` names, with the `declaration` that was written of it.

        Raises StudyError for a text that declares nothing of this name.
        """
        path, attribute = _parts(reference, folder)
        found = DeclaredFile(str(path), "", attribute, text)
        try:
            told = json.loads(text)
            if told["name"] != attribute or not isinstance(told["content"], str):
                raise ValueError(f"it declares {told['name']!r}")
            found.load()
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise StudyError(f"what `{reference}` declares must be recorded, got {shortened(str(error))}") from None
        return found

    @property
    def content(self) -> str:
        """The hash of the code's tokens when it ran."""
        return str(json.loads(self.text)["content"])

    @property
    def declaration(self) -> str:
        """As it was written."""
        return self.text

    def load(self) -> Any:
        """Formulas, or a function that has the parameters of the one that is named, and refuses to be called."""
        told = json.loads(self.text)
        if "statement" in told:
            return Statement(**told["statement"])

        def unknown(**_: Any) -> Any:
            raise StudyError(f"{self.path} was not imported, since only what it declares is known")

        vars(unknown)["__signature__"] = inspect.Signature([_argument(*each) for each in told["parameters"]])
        return unknown


# ... stands for a default that no study file can state, such as an object: only that there is one matters
def _argument(name: str, optional: bool, default: Any) -> inspect.Parameter:
    """An argument with its default; of one that no study file can state it is known only that there is one."""
    value = QuadratureRule(**default) if isinstance(default, dict) else ... if default is None else default
    value = value if optional else inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value)


def _parts(reference: str, folder: Path) -> tuple[Path, str]:
    """Path and attribute of ``file.py:attribute``, relative to `folder`.  Raises StudyError."""
    file, _, attribute = reference.rpartition(":")
    if not file.endswith(".py") or not attribute.isidentifier():
        raise StudyError(f"`{reference}` must read file.py:name")
    return folder / file, attribute


@lru_cache(maxsize=32)  # every case's identity holds it
def _hash_of_words(source: str) -> str:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    kept = [token for token in tokens if token.type not in _LAYOUT]
    words = [_BLANK.get(token.type, token.string) for token in kept]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


# under a name made of content: two versions of a file are two modules, and neither shadows an installed one
@lru_cache(maxsize=32)
def _module(path: str, source: str) -> ModuleType:
    name = f"_evogt_user_{hashlib.sha256((path + source).encode()).hexdigest()[:16]}"
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses and pickle look a class's module up by name
    folder = str(Path(path).parent)
    sys.path.insert(0, folder)  # so that the file may import its neighbours where they exist
    try:
        exec(compile(source, path, "exec"), module.__dict__)  # noqa: S102  # the file the user named to be run
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(folder)
    return module


def signature_parameters(function: Any, reference: str) -> dict[str, Parameter]:
    """A parameter for each argument of a user's function, with its default.

    Raises StudyError for what is not a function of named arguments.
    """
    if not callable(function):
        raise StudyError(f"`{reference}` must be a function, got {type(function).__name__}")
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise StudyError(f"`{reference}` must be a function of named arguments, got one whose {error}") from None
    declared = {}
    for argument in arguments:
        if argument.kind not in (argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY):
            raise StudyError(f"`{reference}` must have named arguments only, got {argument}")
        default, optional = None, False
        if argument.default is not argument.empty:
            try:
                default, optional = canonical(argument.default), True
            except (ValueError, RecursionError):  # no value of a study file; the function keeps it to itself
                default, optional = None, True
        declared[argument.name] = Parameter(
            argument.name, "a number, a word, true or false, or a list", anything, default=default, optional=optional
        )
    return declared

"""A function that is given in Python: by its name where it is installed, else by value."""

from __future__ import annotations

import functools
import inspect
import io
import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from evogt_study.errors import StudyError, shortened
from evogt_study.methods.own.object_content import CACHED, Content, is_local, text_of
from evogt_study.methods.own.used_code import file_content
from evogt_study.methods.own.user_code import InstalledCode, PickledCode, UserCode


def code_of(function: Any, folder: Path) -> UserCode:
    """The code of a callable.  Raises StudyError where it cannot be sent to workers."""
    name, module = _name(function), getattr(function, "__module__", None) or "__main__"
    if inspect.isfunction(function) and not is_local(sys.modules.get(module)):
        reference = f"{module}:{function.__qualname__}"
        # a function inside of another cannot be looked up in its module, and travels by value
        if function.__qualname__.isidentifier():
            return InstalledCode.named(reference, folder)
    content = Content()
    try:
        found = content.hash(function)
        with _by_value({name: each for name, each in content.modules.items() if name not in content.whole}):
            payload = _pickled(function)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise StudyError(
            f"`{name}` must be a function that can be sent to workers, got one that uses what cannot: "
            f"{shortened(str(error))}; make that inside the function"
        ) from None
    return PickledCode(
        reference=f"{module}:{name}", attribute=name, folder=str(folder.resolve()),
        helpers=tuple(sorted(dict(_files(content.whole)).items())), payload=payload, content=found,
        file=source_file(function), text=text_of(function),
    )  # fmt: skip


def _name(function: Any) -> str:
    """The name in messages and in the study's text."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


@contextmanager
def _by_value(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Functions of these modules are pickled with their code, since workers may not have the files."""
    registered = []
    for module in modules.values():
        if module.__name__ in sys.modules:
            cloudpickle.register_pickle_by_value(module)
            registered.append(module)
    try:
        yield
    finally:
        # cloudpickle's list is the whole process's, and others may pickle too
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """As cloudpickle, but for cached functions of the user's own: Python pickles them by a name that workers lack."""

    def reducer_override(self, value: Any) -> Any:
        """Reduce a cached function to what is behind the cache."""
        if isinstance(value, CACHED) and is_local(sys.modules.get(value.__module__ or "")):
            return _cached, (value.__wrapped__, value.cache_parameters())
        return super().reducer_override(value)


def _pickled(function: Any) -> bytes:
    with io.BytesIO() as file:
        _Pickler(file).dump(function)
        return file.getvalue()


def _cached(function: Any, parameters: Mapping[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _files(modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, str]]:
    """The files of the user's own modules with their content."""
    for module in modules.values():
        path = Path(str(module.__file__)).resolve()
        if path.is_file():
            yield path.name, file_content(path)


def source_file(function: Any) -> str:
    """The Python file at whose top level a function has its name; empty where there is none, as in a notebook."""
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if file is None or not name.isidentifier() or getattr(module, name, None) is not function:
        return ""
    return str(Path(file).resolve()) if file.endswith(".py") and Path(file).is_file() else ""

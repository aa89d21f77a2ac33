"""Read small files that other people may have made, such as studies, tables, meshes and Python files.

The functions refuse pipes, devices, files that are too large, and links that lead out of a folder.  So opening a file
cannot wait, and reading a file cannot exhaust the memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import xxhash

from evogt_study.errors import EvogtError, InputError, shorten

MAX_BYTES = 32 * 2**20
"""Largest size of a file that is read as a whole.  A table of a million numbers of 17 digits has 20 MB."""
MAX_STUDY_BYTES = 4 * 2**20
"""Largest size of a study file.  Reading TOML takes 0.5 s for each MB."""
LONG_KEY = re.compile(r"""(?<![\w."'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
"""Pattern of a key with more than 100 parts.  Its reading time grows with the square of the number of parts."""


def open_file(path: Path, inside: Path | None = None, max_bytes: float = math.inf) -> io.BufferedReader:
    """Open a regular file without waiting.  Raises OSError if its target is outside of the folder `inside`."""
    try:
        if inside is not None and not path.resolve().is_relative_to(inside.resolve()):
            raise OSError(0, f"it is not inside of {inside}", str(path))
        # O_NONBLOCK: opening a pipe without a writer would wait. It does not affect regular files
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (ValueError, RuntimeError) as error:  # a null character in the name; a circle of links
        raise OSError(0, str(error), str(path)) from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
        os.close(descriptor)
        is_large = f"it has more than {max_bytes:,} bytes" if stat.S_ISREG(found.st_mode) else ""
        raise OSError(0, is_large or "it is a folder, a pipe or a device", str(path))
    return open(descriptor, "rb")


def read_bytes(path: Path, inside: Path | None = None, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file.  Raises OSError, also for a file of more than `max_bytes`."""
    with open_file(path, inside, max_bytes) as file:
        return file.read(max_bytes)


def read_text(
    path: Path, what: str, kind: type[EvogtError] = InputError, inside: Path | None = None, max_bytes: int = MAX_BYTES
) -> str:
    """Return the text of a file in UTF-8.  `what` names the file in messages.  Raises an error of type `kind`."""
    try:
        return read_bytes(path, inside, max_bytes).decode("utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        reason = "it is no text" if isinstance(error, UnicodeDecodeError) else error.strerror or error
        raise kind(f"cannot read {what} {shorten(str(path), 200)[1:-1]}: {reason}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML text.  Raises ValueError if the text is not valid."""
    if LONG_KEY.search(text):
        raise ValueError("a key has more than 100 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_json(text: str | bytes) -> Any:
    """Return the content of a JSON text.  Raises ValueError, also for numbers outside of JSON, such as NaN."""
    try:
        return json.loads(text, parse_constant=_refuse_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def hash_file(path: Path, inside: Path | None = None) -> str:
    """Return the SHA-256 of the bytes of a regular file of any size.  Raises OSError."""
    with open_file(path, inside) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksum(*parts: Any) -> bytes:
    """Return the XXH3-128 checksum of the bytes of all parts."""
    made = xxhash.xxh3_128()
    for part in parts:
        made.update(part)
    return made.digest()

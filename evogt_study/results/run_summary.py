"""Write and read the summary of a result, which has the counts of its runs.

Commands read the summary without NumPy and HDF5.  The file stores the summary before the index, with the
checksum of all earlier bytes.  The end of the file holds a checksum of the summary and the index.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import xxhash

from evogt_study.errors import Completeness, Message, Status
from evogt_study.storage.files import checksum

MAGIC = b"evogt index 1\n\0\0"
END = struct.Struct("<QQ16s16s16s")
"""Offset and length of the index, checksum of the bytes outside of pieces, checksum of the index, and format name."""
_FOOTER = struct.Struct("<Q16s16s16s")
"""Length of the summary, checksum of the bytes before it, checksum of the summary, and format name."""
_NAME = b"evogt summary 1\n"
_BLOCK = 2**20
MAX_TEXT = 2**24  # size of a summary up to which it is read: the study text and some messages


@dataclass(frozen=True)
class RunSummary:
    """Counts of the runs of a result by phase, its accuracy warnings, its study text, and a hash of its plan."""

    phases: dict[str, Completeness]
    doubts: Mapping[str, Sequence[str]]
    study: str = ""
    plan: str = ""

    @property
    def is_complete(self) -> bool:
        """True if no planned run has the status `not_run`."""
        return not any(Status.not_run.name in each.counts for each in self.phases.values())


def _hash_begin(file: BinaryIO, size: int) -> bytes:
    """Return the checksum of the first `size` bytes of a file."""
    made = xxhash.xxh3_128()
    file.seek(0)
    while size and (block := file.read(min(_BLOCK, size))):
        made.update(block)
        size -= len(block)
    return made.digest()


def append_summary(file: BinaryIO, summary: RunSummary) -> None:
    """Write a summary at the end of a file.  The file must be open for reading and writing."""
    end, text = file.seek(0, 2), json.dumps(asdict(summary)).encode()
    begin = _hash_begin(file, end)
    file.seek(end)
    file.write(text + _FOOTER.pack(len(text), begin, checksum(text), _NAME))


def read_summary(path: Path) -> RunSummary | None:
    """Return the summary of a result, or None if the file has no summary or a changed byte.  Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - END.size))
        tail = file.read()
        if len(tail) < END.size or not tail.endswith(MAGIC):
            return None
        at, length, rest, own, _ = END.unpack(tail)
        if at + length + END.size != size or at < _FOOTER.size:
            return None
        file.seek(at - _FOOTER.size)
        count, before, mark, name = _FOOTER.unpack(file.read(_FOOTER.size))
        begin = at - _FOOTER.size - count
        if name != _NAME or begin < 0 or count > MAX_TEXT or checksum(file.read(length), rest) != own:
            return None
        file.seek(begin)
        text = file.read(count)
        if checksum(text) != mark or _hash_begin(file, begin) != before:
            return None
    try:
        known = json.loads(text)
        phases = {}
        for phase, content in known["phases"].items():
            messages = [Message(**each) for each in content["messages"]]
            phases[phase] = Completeness(**{**content, "lacking": (), "messages": messages})
        return RunSummary(phases, known["doubts"], known["study"], known["plan"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):  # not written by this package
        return None

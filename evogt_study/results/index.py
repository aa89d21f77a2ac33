"""Write and read the index at the end of a shard or a result: records of runs, with place and checksum of each piece.

A result has an HDF5 part, then pieces that HDF5 stores in another form, the summary, the index and the end.  A program
that changes the file with HDF5 removes the other parts.  Adding or checking runs does not open HDF5.
"""

import itertools
import json
import math
import os
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import ENOMEM
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from evogt_study.errors import DamagedResultError, ResultError
from evogt_study.results.provenance import END, MAGIC, RunSummary, append_summary
from evogt_study.schema.records import COORDINATE, RunRecords, Stack
from evogt_study.schema.variables import MAIN, RUN_PREFIX, Status
from evogt_study.storage.arrays import RAW, Form, Packed, PieceBuffer, PieceFile, to_file_dtype, unpack_bytes
from evogt_study.storage.files import checksum, make_folder, write_atomically
from evogt_study.storage.hdf5 import HDF5_LOCK, NO_VARIABLE
from evogt_study.study.case_space import MAX_CASES, Keys

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, MemoryError, struct.error,
              zlib.error)  # fmt: skip
"""Errors in reading a file that is damaged or that another program wrote."""
MAX_DEFLATE_RATIO = 1032  # most bytes that one byte of DEFLATE can encode: 258 in two bits
REFERENCE_BYTES = 16  # bytes of the file for a string that is stored by itself
MAX_WHOLE_BYTES = 256 * 2**20  # largest variable that xarray reads in one piece when it opens a file, such as strings
# attributes in which HDF5 and NetCDF store dimensions
STRUCTURE_ATTRIBUTES = ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates")
NO_INDEX = "the file has no valid index: another program has changed it, or its end is damaged"
MIN_CHECK_SECONDS = 60
BYTES_PER_SECOND = 5_000_000  # checking a file without an index may take one second more for this size
_BLOCK_BYTES = 2**20
SUFFIX = ".shard"
DIGESTS = "content_digests"  # global attribute: the `hash_variable` of each variable, as JSON


class Inspection(NamedTuple):
    """Result of a check, with a line for each broken part of a file and a line for each changed part."""

    broken: list[str]
    changed: list[str]


@dataclass(frozen=True)
class Index:
    """The index of a file, with the records of each phase.  A shard has only the phase ""."""

    phases: Mapping[str, RunRecords]
    axes: Mapping[str, Mapping[str, Any]]  # axis values of each phase, which name runs in messages
    places: Sequence[tuple[str, int, int, bytes]] = ()  # name, offset, size and checksum of other variables
    about: str = ""  # description of a shard
    summary: RunSummary | None = None  # written before the index
    end: int = 0  # offset of the index
    rest: bytes = b""  # checksum of all bytes outside of pieces

    @property
    def keys(self) -> Keys:
        """Run keys of all finished runs."""
        return np.array([key for records in self.phases.values() for key in records.keys], dtype=np.bytes_)


def pack_records(records: RunRecords) -> RunRecords:
    """Return records with packed arrays, as workers send them.  A coordinate that runs share is stored once."""
    groups: dict[tuple[object, ...], list[Stack]] = {}
    stacks = [stack for stack in records.stacks if not stack.dims or isinstance(stack.values, Packed)]
    for stack in (stack for stack in records.stacks if stack.dims and not isinstance(stack.values, Packed)):
        kind = (stack.name, stack.role, stack.dims, stack.values.dtype, repr(stack.attributes))
        groups.setdefault(kind, []).append(stack)  # arrays of any length together
    for first, *others in groups.values():
        rows, arrays = first.rows, first.values
        if others:
            rows = np.concatenate([stack.rows for stack in (first, *others)])
            own, order = [array for stack in (first, *others) for array in stack.values], np.argsort(rows)
            rows, arrays = rows[order], [own[place] for place in order]
        stacks.append(replace(first, rows=rows, values=Packed.pack(arrays, share=first.role == COORDINATE)))
    return replace(records, stacks=tuple(stacks))


# --- the index as bytes ----------------------------------------------------------------------------------------------


_PLAIN_TYPES = (str, int, float, bool, type(None))


def _flatten_content(content: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    """Return the content as a tree for JSON, and add its arrays to `arrays`."""
    if isinstance(content, (list, tuple)):
        return [value if type(value) in _PLAIN_TYPES else _flatten_content(value, arrays) for value in content]
    if isinstance(content, (np.ndarray, np.generic)):
        if content.dtype.kind in "OU":
            return {"strings": np.asarray(content).ravel().tolist(), "shape": content.shape}
        arrays.append(np.asarray(content))
        kind = [list(field) for field in content.dtype.descr] if content.dtype.names else content.dtype.str
        return {"array": kind, "shape": content.shape}
    if isinstance(content, Mapping):
        flat = zip(content, _flatten_content(list(content.values()), arrays), strict=True)
        return {"mapping": list(map(list, flat))}
    return content.hex() if isinstance(content, bytes) else content


def encode(content: Any) -> bytes:
    """Return a tree of mappings, lists, arrays and plain values as bytes."""
    arrays: list[npt.NDArray[Any]] = []
    text = json.dumps(_flatten_content(content, arrays)).encode()
    sizes = struct.pack(f"<QQ{len(arrays)}Q", len(text), len(arrays), *(array.nbytes for array in arrays))
    parts: list[Any] = [sizes, text, *(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays)]
    if (size := sum(map(len, parts))) < _BLOCK_BYTES:  # which deflates better together
        parts = [b"".join(parts)]
    packed = _compress(isal_zlib.compressobj(1), parts)
    return packed if size <= limit_unpacked_bytes(packed) else _compress(zlib.compressobj(0), parts)


# part by part: the index of a study of many runs would be in memory several times
def _compress(packer: Any, parts: Sequence[Any]) -> bytes:
    return b"".join([*map(packer.compress, parts), packer.flush()])


def limit_unpacked_bytes(packed: bytes) -> int:
    """Return the largest size of unpacked content, so that a small file cannot take much memory."""
    return 2**20 + 32 * len(packed)


def decode(packed: bytes) -> Any:
    """Return the tree from which `encode` made the bytes.  Raises ValueError for other bytes."""
    content = memoryview(unpack_bytes(packed, limit_unpacked_bytes(packed)))
    length, count = struct.unpack_from("<QQ", content)
    if count > len(content):
        raise ValueError("it has more arrays than bytes")
    sizes, at = struct.unpack_from(f"<{count}Q", content, 16), 16 + 8 * count
    ends = list(itertools.accumulate([at + length, *sizes]))
    arrays = (bytes(content[begin:end]) for begin, end in itertools.pairwise(ends))

    def restore(plain: dict[str, Any]) -> Any:  # arrays are read in their order in the text
        if "mapping" in plain:
            return dict(plain["mapping"])
        if "strings" in plain:
            return np.array([*map(str, plain["strings"]), None], object)[:-1].reshape(plain["shape"])
        kind = plain["array"]
        dtype = np.dtype([tuple(field) for field in kind] if isinstance(kind, list) else kind)
        return np.frombuffer(next(arrays), dtype).reshape(plain["shape"])[()]

    return json.loads(bytes(content[at : at + length]), object_hook=restore)


def describe_records(records: RunRecords) -> dict[str, Any]:
    """Return records as a tree for `encode`.  The tree leaves out empty messages and outputs."""
    sets = {text: number for number, text in enumerate(dict.fromkeys(records.software))}
    texts = {}
    for name in ("messages", "outputs"):
        there = {row: text for row, text in enumerate(getattr(records, name)) if text}
        texts[name] = [list(there), list(there.values())]
    stacks = []
    for stack in records.stacks:
        values: Any = stack.values
        if isinstance(values, Packed):
            forms = [[form.dtype.str, form.stored.str, form.chunk] for form in values.forms]
            values = [forms, values.form, values.shapes, values.pieces, values.limits]
        known = {"name": stack.name, "role": stack.role, "dims": stack.dims, "rows": stack.rows}
        stacks.append({**known, "values": values, "attributes": stack.attributes})
    return {
        "keys": np.asarray(records.keys, np.bytes_), "status": records.status, "seconds": records.wall_seconds,
        "attempts": records.attempts, **texts, "sets": list(sets), "left_out": records.left_out, "stacks": stacks,
        "software": np.array([sets[text] for text in records.software], np.int32),
    }  # fmt: skip


def _restore_records(known: Mapping[str, Any], file: PieceFile) -> RunRecords:
    count, texts, stacks = len(known["keys"]), dict[str, tuple[str, ...]](), []
    for name in ("messages", "outputs"):
        there = dict(zip(*known[name], strict=True))
        texts[name] = tuple(there.get(row, "") for row in range(count)) if there or name == "messages" else ()
    for each in known["stacks"]:
        values = each["values"]
        if isinstance(values, list):
            forms = [Form(np.dtype(own), np.dtype(stored), chunk and tuple(chunk)) for own, stored, chunk in values[0]]
            form, shapes, pieces, limits = values[1:]
            values = Packed(forms, form, shapes, pieces, limits, [file])
        stacks.append(Stack(each["name"], tuple(each["dims"]), each["rows"], values, each["attributes"], each["role"]))
    return RunRecords(
        keys=tuple(known["keys"].astype(str).tolist()), status=known["status"], wall_seconds=known["seconds"],
        attempts=known["attempts"], software=tuple(known["sets"][number] for number in known["software"].tolist()),
        stacks=tuple(stacks), left_out=tuple(known["left_out"]), **texts,
    )  # fmt: skip


# --- the index at the end of a file -----------------------------------------------------------------------------------


def append_index(file: BinaryIO, target: PieceFile, index: Index) -> None:
    """Write new pieces, the summary, the index and the end.  `target` is the file under its final name."""
    end = file.seek(0, os.SEEK_END)
    for stack in _iterate_packed(index):
        end = _append_pieces(file, end, stack.values, target)
    if index.summary is not None:
        append_summary(file, index.summary)
        end = file.tell()
    file.flush()
    content = encode({
        "phases": {phase: describe_records(records) for phase, records in index.phases.items()}, "axes": index.axes,
        "places": [[name, offset, size, mark.hex()] for name, offset, size, mark in index.places],
        "about": index.about,
    })  # fmt: skip
    rest = _hash_between_pieces(file.fileno(), index, end)
    file.write(content + END.pack(end, len(content), rest, checksum(content, rest), MAGIC))


def _iterate_packed(index: Index) -> Iterator[Stack]:
    stacks = (stack for records in index.phases.values() for stack in records.stacks)
    return (stack for stack in stacks if isinstance(stack.values, Packed))


def _append_pieces(file: BinaryIO, end: int, packed: Packed, target: PieceFile) -> int:
    """Write the pieces from memory or other files at `end`, each once.  Return the end of the pieces."""
    if all(source is target for source in packed.sources):
        return end
    pieces, form = packed.pieces.copy(), packed.form.copy()
    if all(isinstance(source, PieceBuffer) for source in packed.sources):
        contents: list[Any] = [source.content.data for source in packed.sources if isinstance(source, PieceBuffer)]
        pieces["offset"] += np.cumsum([end, *map(len, contents)])[pieces["file"]]
        end += sum(map(file.write, contents))
    else:
        moved = dict[bytes, int]()
        for row in np.flatnonzero(packed.present).tolist():
            contents = [packed.read_piece(piece) for piece in pieces[row, : packed.count_pieces(row)]]
            if pieces["row"][row, 0] >= 0:  # a chunk of several runs
                values = packed.read_row(row)
                contents, dtype = [values.tobytes()], values.dtype
                form[row] = packed.add_form(Form(dtype, to_file_dtype(dtype), None))
                pieces[row, 0] = (0, RAW, 0, len(contents[0]), checksum(contents[0]))
            for number, content in enumerate(contents):
                mark = pieces["checksum"][row, number].tobytes()
                if mark not in moved:
                    moved[mark] = end
                    end += file.write(content)
                pieces["offset"][row, number] = moved[mark]
    pieces["file"] = 0
    packed.pieces, packed.form, packed.sources = pieces, form, [target]
    return end


def _hash_between_pieces(descriptor: int, index: Index, end: int) -> bytes:
    """Return the checksum of all bytes outside of pieces, such as the attributes in HDF5."""
    found = [np.array([[offset, size] for _, offset, size, _ in index.places], np.int64).reshape(-1, 2)]
    pieces = (stack.values.pieces.ravel() for stack in _iterate_packed(index))
    found += [np.stack([each["offset"], each["size"]], axis=1) for each in pieces]
    extents = np.concatenate(found)
    extents = extents[extents[:, 1] > 0]
    extents = extents[np.argsort(extents[:, 0], kind="stable")]
    extents[:, 1] += extents[:, 0]
    begins, ends = [0, *np.maximum.accumulate(extents[:, 1]).tolist()], [*extents[:, 0].tolist(), end]
    gaps = (range(begin, stop, _BLOCK_BYTES) for begin, stop in zip(begins, ends, strict=True))
    return checksum(*(os.pread(descriptor, min(_BLOCK_BYTES, gap.stop - at), at) for gap in gaps for at in gap))


def read_index(path: Path) -> Index | None:
    """Return the index of a file, or None without a valid index.  Raises ResultError if the file cannot be read."""
    if not path.is_file():  # a pipe would be waited for
        return None
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            stream.seek(max(0, size - END.size))
            tail = stream.read()
            if tail[-len(MAGIC) :].startswith(MAGIC[:12]) and not tail.endswith(MAGIC):
                raise ResultError(f"{path} is from another version of evogt-study. Read it with that version")
            if len(tail) < END.size or not tail.endswith(MAGIC):
                return None
            end, length, rest, own, _ = END.unpack(tail)
            stream.seek(min(end, size))
            content = stream.read(min(length, size))
    except OSError as error:
        raise ResultError(f"cannot read {path}: {error.strerror or error}") from None
    if end + length + END.size != size or checksum(content, rest) != own:
        return None
    try:
        known, file = decode(content), PieceFile(path)
        places = [(str(name), int(at), int(size), bytes.fromhex(mark)) for name, at, size, mark in known["places"]]
        phases = {str(phase): _restore_records(records, file) for phase, records in known["phases"].items()}
        index = Index(phases, known["axes"], places, known["about"], end=end, rest=rest)
        is_shared = any(axes.get("shared") for axes in index.axes.values())
        if not all(at >= 0 and 0 <= size <= end - at for _, at, size, _ in places):
            raise ValueError("bytes of a variable are not in the file")
        for records in phases.values():
            _check_records(records, end)
    except UNREADABLE as error:  # valid, but not what this package writes
        raise DamagedResultError(f"{path} is damaged: its index cannot be read ({error})") from None
    for stack in _iterate_packed(index) if not is_shared else ():  # else a chunk holds a run more than once
        pieces = stack.values.pieces
        starts, counts = np.unique(pieces["offset"][pieces["row"] >= 0], return_counts=True)
        file.chunk_runs.update(zip(starts.tolist(), counts.tolist(), strict=True))
    return index


def _check_records(records: RunRecords, end: int) -> None:
    """Raise ValueError if a file of `end` bytes cannot hold the runs and pieces of the records."""
    count = len(records.keys)
    lists = (records.status, records.messages, records.wall_seconds, records.attempts, records.software)
    if any(len(each) != count for each in lists) or not np.isin(records.status, list(Status)).all():
        raise ValueError("run metadata have invalid lengths or values")
    for stack in records.stacks:
        rows = stack.rows
        if rows.dtype.kind not in "iu" or rows.shape != (len(stack.values),) or len(np.unique(rows)) < len(rows):
            raise ValueError(f"`{stack.name}` has no row for each value")
        if len(rows) and not 0 <= rows.min() <= rows.max() < count:
            raise ValueError(f"`{stack.name}` has rows without a run")
        if isinstance(stack.values, Packed):
            stack.values.check(end)


def find_damage(path: Path, index: Index) -> Iterator[str]:
    """Yield a line for each damaged piece, with its variable and its runs."""
    stacks = [(phase, stack) for phase, records in index.phases.items() for stack in records.stacks]
    for phase, stack in ((phase, stack) for phase, stack in stacks if isinstance(stack.values, Packed)):
        packed, is_whole, wrong = stack.values, dict[int, bool](), dict[int, list[int]]()
        for place in np.flatnonzero(packed.present).tolist():
            for piece in packed.pieces[place, : packed.count_pieces(place)]:
                at = int(piece["offset"])
                if at not in is_whole:
                    is_whole[at] = checksum(packed.read_piece(piece)) == piece["checksum"].tobytes()
                if not is_whole[at]:
                    wrong.setdefault(at, []).append(int(stack.rows[place]))
        for rows in wrong.values():
            name = index.phases[phase].keys[rows[0]]
            if axes := index.axes.get(phase):
                labels = axes["labels"]
                positions = np.unravel_index(int(axes["cases"][rows[0]]), [*map(len, labels.values())])
                places = zip(labels.items(), positions, strict=True)
                name = ", ".join(f"{axis}={each[at]}" for (axis, each), at in places)
            runs = f"the run {name}" if len(rows) == 1 else f"{len(rows)} runs, for example {name},"
            yield f"{phase}: `{stack.name}` of {runs} is damaged: its checksum does not match".lstrip(": ")
    with path.open("rb") as file:
        for name, offset, size, mark in index.places:
            if checksum(os.pread(file.fileno(), size, offset)) != mark:
                yield f"{name} is damaged: its checksum does not match"
        if _hash_between_pieces(file.fileno(), index, index.end) != index.rest:
            yield "the file is damaged: the checksum of its attributes and structure does not match"


def list_shards(folder: Path) -> list[Path]:
    """Return the shards in `folder`, in the order of their names."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def write_shard(folder: Path, records: RunRecords, about: str = "") -> Path:
    """Write `records` to a new shard in `folder`, and read their arrays from it afterwards.  Raises ResultError."""
    # named by content: a batch that is computed twice writes the same file, so no run counts twice
    path = folder / f"{sha256(','.join(records.keys).encode()).hexdigest()[:20]}{SUFFIX}"
    try:
        make_folder(folder)
        with write_atomically(path) as temporary, temporary.open("w+b") as file:
            append_index(file, PieceFile(path), Index({"": pack_records(records)}, {}, about=about))
    except OSError as error:
        raise ResultError(f"cannot write {path}: {error.strerror or error}") from None
    return path


def read_shard(path: Path, is_checked: Callable[[Keys], bool] = lambda keys: True) -> Index:
    """Return the index of a shard.  Check its bytes if `is_checked` accepts its run keys.  Raises ResultError."""
    index = read_index(path)
    if index is None or "" not in index.phases:
        raise DamagedResultError(f"{path} is damaged: it has no valid index")
    for found in find_damage(path, index) if is_checked(index.keys) else ():
        raise DamagedResultError(f"{path} is damaged: {found}")
    return index


# --- files that another program has changed ---------------------------------------------------------------------------


def hash_variable(
    shape: tuple[int, ...], dtype: np.dtype[Any], attributes: Mapping[str, Any], pieces: Sequence[tuple[Any, bytes]]
) -> str:
    """Return a checksum of the bytes, dtype and attributes of a variable, which shows changes by other programs."""
    plain = dict[str, list[Any]]()  # equal for an attribute as it is written and as h5py reads it
    for name in sorted(attributes):
        value = "" if type(attributes[name]).__name__ == "Empty" else attributes[name]
        found = [value] if isinstance(value, str) else value
        found = found if isinstance(found, list) else np.asarray(found).ravel().tolist()
        plain[str(name)] = [each.decode(errors="replace") if isinstance(each, bytes) else each for each in found]
    head = repr([shape, dtype.str, plain])
    return checksum(head.encode(), *(repr(start).encode() + mark for start, mark in sorted(pieces))).hex()[:16]


def inspect(path: Path) -> Inspection:
    """Check every byte of a result.  Raises ResultError if the file is not HDF5."""
    index = read_index(path)
    if index is not None:
        return Inspection(list(find_damage(path, index)), [])
    # in a process of its own, since HDF5 may not return from a damaged file
    seconds = MIN_CHECK_SECONDS + (path.stat().st_size // BYTES_PER_SECOND if path.is_file() else 0)
    command = [sys.executable, "-P", "-m", __name__, str(seconds), str(path)]
    # -P keeps the working folder out of the path: a `json.py` there must not be imported
    places = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    done = subprocess.run(command, capture_output=True, text=True, env=places, check=False)  # noqa: S603  # this module
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        reason = f"did not end within {seconds} s" if name == "SIGALRM" else f"crashed ({name})"
        return Inspection([f"the file is damaged: reading it {reason}"], [])
    if done.returncode:
        raise ResultError((done.stderr.splitlines() or [f"cannot check {path}"])[-1])
    return Inspection(**json.loads(done.stdout))


def check_file(path: Path, *, accepts_changes: bool = False) -> list[str]:
    """Return a line for each change by another program.  Raises DamagedResultError for damage, or a changed run."""
    found = inspect(path)
    for problem in (*found.broken, *(line for line in found.changed if line != NO_INDEX and not accepts_changes)):
        raise DamagedResultError(f"in {path} {problem}. List all damage with `evogt verify`")
    return found.changed


def read_in_full(path: Path) -> Inspection:
    """Check a file without a valid index, in this process."""
    import h5py
    import netCDF4

    found = Inspection([], [NO_INDEX])
    try:
        check_sizes(path)
        netCDF4.Dataset(path).close()  # it reads the lists of dimensions, in which a damaged file can keep it for ever
        with h5py.File(path) as file:
            for group in (file, *(each for each in file.values() if isinstance(each, h5py.Group))):
                _check_variables(group, MAIN if group is file else group.name.removeprefix(f"/{RUN_PREFIX}"), found)
    except DamagedResultError as error:
        found.broken.append(str(error))
    except UNREADABLE as error:
        if not path.is_file() or not h5py.is_hdf5(path):  # never a result
            raise explain_unreadable(path, error) from None
        reason = getattr(error, "strerror", None) or error
        found.broken.append(f"the file is damaged: it cannot be opened ({reason})")
    return found


def _check_variables(group: Any, phase: str, found: Inspection) -> None:
    """Add the broken variables and the changed variables of a group to `found`."""
    try:
        written = dict(json.loads(group.attrs[DIGESTS])) if DIGESTS in group.attrs else None
    except UNREADABLE:
        found.changed.append(f"{phase}: the attribute `{DIGESTS}` is damaged")
        return
    for name in sorted({*group, *(written or {})}):
        try:
            made = group.get(name)
            if made is not None and (not hasattr(made, "shape") or _is_bare(made)):
                continue
            now = None
            if made is not None:
                attributes = {name: made.attrs[name] for name in made.attrs if name not in STRUCTURE_ATTRIBUTES}
                pieces, starts = list[tuple[Any, bytes]](), list[tuple[int, ...]]()
                if made.chunks is not None:
                    made.id.chunk_iter(lambda info, starts=starts: starts.append(info.chunk_offset))
                    pieces = [(start, checksum(made.id.read_direct_chunk(start)[1])) for start in starts]
                elif made.size and made.id.get_storage_size():
                    values = made[()]
                    parts = values.ravel() if made.dtype.hasobject else [np.asarray(values).tobytes()]
                    pieces = [((), checksum(*parts))]
                now = hash_variable(made.shape, made.dtype, attributes, pieces)
        except UNREADABLE as error:
            found.broken.append(f"{phase}: `{name}` is damaged: it cannot be read ({error})")
            continue
        if written is not None and written.get(name) != now:
            found.changed.append(f"{phase}: `{name}` has changed since it was written")


def _is_bare(made: Any) -> bool:
    """Return True if an HDF5 dataset is a dimension without a coordinate."""
    return bytes(made.attrs.get("NAME", b"")).startswith(NO_VARIABLE[:40].encode())


def check_sizes(path: Path) -> None:
    """Raise DamagedResultError if a file declares more values than it can hold, such as terabytes of zeros."""
    import h5py

    problems, size, least = list[str](), path.stat().st_size, 0.0
    with HDF5_LOCK, h5py.File(path) as file:
        groups = [file, *(each for each in file.values() if isinstance(each, h5py.Group))]
        for made in (each for group in groups for each in group.values() if isinstance(each, h5py.Dataset)):
            if made.is_scale and _is_bare(made):
                continue
            name, count = made.name.rpartition("/")[2], math.prod(made.shape or ())
            is_text = made.dtype.hasobject  # a reference for each string, which HDF5 does not compress
            least += count * (REFERENCE_BYTES if is_text else made.dtype.itemsize / MAX_DEFLATE_RATIO)
            if name == "run_status" and count > MAX_CASES:
                problems.append(f"a result must have at most {MAX_CASES:,} runs, got {count:,}")
            # characters, and a dimension's own coordinate, are read in one piece when the file is opened
            if (made.dtype == np.dtype("S1") or made.is_scale) and count * made.dtype.itemsize > MAX_WHOLE_BYTES:
                problems.append(f"`{name}` must have at most {MAX_WHOLE_BYTES:,} bytes, got {count:,} values")
    if least > size:
        problems.insert(0, f"its variables take at least {math.ceil(least):,} bytes, got a file of {size:,}")
    if problems:
        raise DamagedResultError(f"{path} is damaged: {problems[0]}")


def explain_unreadable(path: Path, error: Exception) -> ResultError:
    """Return the error for a file that cannot be read, with a remedy for study files and scripts."""
    lacks_memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == ENOMEM
    if lacks_memory or "Memory allocation" in str(error):  # NetCDF's own text
        return ResultError(f"there is not enough memory to read {path}")
    if isinstance(error, ResultError):
        return error
    if path.is_dir() or any(text in str(error) for text in ("Unknown file format", "signature not found")):
        study = ". Write its result with `evogt run`, and give the result here"
        remedy = {".toml": study, ".py": ". Run the script with `python`"}.get(path.suffix.lower(), "")
        kind = "a folder" if path.is_dir() else "another kind of file"
        return ResultError(f"cannot read {path} as NetCDF: it is {kind}{remedy}")
    return ResultError(f"cannot read {path} as NetCDF: {error}")


if __name__ == "__main__":
    # no handler of Python's: the interpreter would run one only after HDF5 returns
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(sys.argv[1]))
    try:
        print(json.dumps(read_in_full(Path(sys.argv[2]))._asdict()))
    except ResultError as unreadable:
        sys.exit(str(unreadable))

"""Record the provenance of a result and the summary of its runs, which commands read without NumPy and HDF5."""

import ctypes
import hashlib
import json
import platform
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import xxhash
from threadpoolctl import threadpool_info

from evogt_study.errors import Completeness, Message, Status
from evogt_study.storage.files import checksum

NUMERICAL_PACKAGES = ("evogt-study", "numpy", "scipy", "sympy")
FILE_PACKAGES = ("xarray", "dask", "distributed", "netCDF4")
PLAN_DIGEST = "plan_digest"  # global attribute: `hash_plan` of the study when the keys of the result were computed


@lru_cache(maxsize=1)
def read_versions() -> str:
    """Return the versions of Python, packages and BLAS that determine the numbers of a run, as JSON."""
    return _describe_versions(NUMERICAL_PACKAGES)


@lru_cache(maxsize=1)  # constant in this process
def read_environment() -> Mapping[str, str]:
    """Return software versions, machine and code revision under the attribute names of a result file."""
    folder, revision, dirty = Path(__file__).parents[1], "unknown", "unknown"

    def git(*arguments: str) -> str:
        # 10 s: a folder on a server that does not answer must not keep a study from ending
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()  # noqa: S603

    with suppress(OSError, subprocess.SubprocessError):
        git("ls-files", "--error-unmatch", "__init__.py")  # fails where the code is only installed there
        revision, dirty = git("rev-parse", "HEAD"), "true" if git("status", "--porcelain", "--", ".") else "false"
    text = _describe_versions((*NUMERICAL_PACKAGES, *FILE_PACKAGES))
    cpu = platform.processor() or platform.machine()
    with suppress(OSError):
        named = (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
        cpu = next((line.partition(":")[2].strip() for line in named), cpu)
    machine = {"platform": platform.platform(), "cpu": cpu}
    return {"git_revision": revision, "git_dirty": dirty, "versions": text, **machine}


@lru_cache(maxsize=1)
def read_package_version() -> str:
    """Return the installed version of this package."""
    return version("evogt-study")


def hash_plan(text: str, sources: Iterable[str]) -> str:
    """Return a hash of the study text, its Python files and this package, which determine cases and run keys."""
    return hashlib.sha256(json.dumps([hash_package(), text, *sources]).encode()).hexdigest()


@lru_cache(maxsize=1)
def hash_package() -> str:
    """Return the version of this package with a hash of its code, which changes with each edit of the code."""
    folder = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=4)  # 8 digits, since people read it: it detects changes, not forgery
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{read_package_version()} (code {digest.hexdigest()})"


def _describe_versions(packages: tuple[str, ...]) -> str:
    known = {"python": platform.python_version(), "blas": _describe_blas()}
    return json.dumps({**known, **{package: version(package) for package in packages}}, sort_keys=True)


# NumPy and SciPy load one library each. Its kernels for the processor decide the last digits
def _describe_blas() -> str:
    # the list must not depend on the libraries that a run happens to use. Importing scipy.linalg takes 0.15 s
    import scipy

    library = next(Path(scipy.__file__).parent.glob("linalg/_fblas*.so"), None)
    if library is None:
        import scipy.linalg.blas
    else:
        ctypes.CDLL(str(library))
    every = [info for info in threadpool_info() if info.get("user_api") == "blas"]
    texts = {
        f"{info.get('internal_api')} {info.get('version')} {info.get('architecture', '')}".strip() for info in every
    }
    return "; ".join(sorted(texts)) or "unknown"


# --- summary of a result: before the index, with the checksum of all earlier bytes -----------------------------------

MAGIC = b"evogt index 1\n\0\0"
END = struct.Struct("<QQ16s16s16s")
"""Offset and length of the index, checksum of the bytes outside of pieces, checksum of the index, and format name."""
_FOOTER = struct.Struct("<Q16s16s16s")
"""Length of the summary, checksum of the bytes before it, checksum of the summary, and format name."""
_SUMMARY_FORMAT = b"evogt summary 1\n"
_BLOCK_BYTES = 2**20
MAX_SUMMARY_BYTES = 2**24  # size of a summary up to which it is read: the study text and some messages


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
    while size and (block := file.read(min(_BLOCK_BYTES, size))):
        made.update(block)
        size -= len(block)
    return made.digest()


def append_summary(file: BinaryIO, summary: RunSummary) -> None:
    """Write a summary at the end of a file.  The file must be open for reading and writing."""
    end, text = file.seek(0, 2), json.dumps(asdict(summary)).encode()
    begin = _hash_begin(file, end)
    file.seek(end)
    file.write(text + _FOOTER.pack(len(text), begin, checksum(text), _SUMMARY_FORMAT))


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
        is_readable = name == _SUMMARY_FORMAT and begin >= 0 and count <= MAX_SUMMARY_BYTES
        if not is_readable or checksum(file.read(length), rest) != own:
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

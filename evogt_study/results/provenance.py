"""Provenance of numbers: versions of the software that computed a run, and the machine and revision of a file."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

NUMERICAL = ("evogt-study", "numpy", "scipy", "sympy")
FILE_FORMATS = ("xarray", "dask", "distributed", "netCDF4")


@lru_cache(maxsize=1)
def software_set() -> str:
    """Versions of what determines a run's numbers, as JSON text: package, Python, NumPy, SciPy, sympy and BLAS."""
    return json.dumps({"python": platform.python_version(), **_versions(NUMERICAL), "blas": _blas()}, sort_keys=True)


@lru_cache(maxsize=1)  # what this process runs does not change
def environment() -> Mapping[str, Any]:
    """Versions, machine and revision for a result file's attributes."""
    revision, dirty = git_state(Path(__file__).parents[1])
    return {
        "versions": {"python": platform.python_version(), **_versions((*NUMERICAL, *FILE_FORMATS)), "blas": _blas()},
        "platform": platform.platform(),
        "cpu": _cpu(),
        "git_revision": revision,
        "git_dirty": dirty,
    }


@lru_cache(maxsize=1)
def package_version() -> str:
    """Version of this package as installed."""
    return _versions(("evogt-study",))["evogt-study"]


PLAN = "plan_digest"
"""Global attribute: the `plan_digest` of the study when the result's cases and their keys were made."""


# with the package's code, since a change of it may change what cases and keys follow from the same text
def plan_digest(text: str, sources: Iterable[str]) -> str:
    """Digest of all that the cases of a study and their keys follow from.

    That is its text, those of the Python files it names, its method's before its problem's, and this package's code.
    """
    return hashlib.sha256(json.dumps([package_code(), text, *sources]).encode()).hexdigest()


@lru_cache(maxsize=1)
def package_code() -> str:
    """Version of this package with a digest of its code, which distinguishes two states of a checkout."""
    folder = Path(__file__).parents[1]
    # 8 digits: to notice a change, not to withstand an attempt; it is shown to people
    digest = hashlib.blake2b(digest_size=4)
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{package_version()} (code {digest.hexdigest()})"


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found


# of the libraries that are loaded: NumPy and SciPy bring one each, and the processor's kernels decide the last digits
def _blas() -> str:
    # loaded here, 0.2 s where nothing else did: what is listed must not follow from what a run happens to use
    import scipy.linalg.blas  # noqa: F401

    libraries = {
        f"{info.get('internal_api')} {info.get('version')} {info.get('architecture', '')}".strip()
        for info in threadpool_info()
        if info.get("user_api") == "blas"
    }
    return "; ".join(sorted(libraries)) or "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def git_state(folder: Path) -> tuple[str, str]:
    """Revision and "true"/"false" for uncommitted changes of the checkout that holds the code, or "unknown" twice."""
    try:
        _git(folder, "ls-files", "--error-unmatch", "__init__.py")  # fails where the code is only installed there
        revision = _git(folder, "rev-parse", "HEAD")
        return revision, "true" if _git(folder, "status", "--porcelain", "--", ".") else "false"
    except (OSError, subprocess.SubprocessError):
        return "unknown", "unknown"


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    # 10 s: a folder on a server that does not answer must not keep a study from ending
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603  # fixed arguments
    return done.stdout.strip()

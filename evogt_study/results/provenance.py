"""Record the provenance of a result: software versions, machine, and code revision."""

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
PLAN = "plan_digest"
"""Global attribute: `plan_digest` of the study when the keys of the result were computed."""


@lru_cache(maxsize=1)
def software_set() -> str:
    """Versions that determine the numbers of a run, as JSON text: package, Python, NumPy, SciPy, SymPy and BLAS."""
    return json.dumps({"python": platform.python_version(), **_versions(NUMERICAL), "blas": _blas()}, sort_keys=True)


@lru_cache(maxsize=1)  # constant in this process
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


def plan_digest(text: str, sources: Iterable[str]) -> str:
    """Hash of everything that determines the cases of a study and their keys.

    This is the study text, the text of its Python files (first the method, then the problem), and the code of this
    package, since a change of the package may change the keys.
    """
    return hashlib.sha256(json.dumps([package_code(), text, *sources]).encode()).hexdigest()


@lru_cache(maxsize=1)
def package_code() -> str:
    """Version of this package with a hash of its code, which distinguishes two states of a checkout."""
    folder = Path(__file__).parents[1]
    # 8 digits, since people read it: it detects changes, not forgery
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


# NumPy and SciPy load one library each; its kernels for the processor decide the last digits
def _blas() -> str:
    # 0.2 s if not loaded yet: the list must not depend on the libraries that a run happens to use
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
    """Revision of the checkout with the code, and "true" or "false" for uncommitted changes; or "unknown" twice."""
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

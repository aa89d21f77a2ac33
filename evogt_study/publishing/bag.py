"""The manifest of a folder: BagIt 1.0 (RFC 8493), with SHA-256.

Payload is what lies below ``data/``; the files beside it describe the bag.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from evogt_study.errors import InputError, ResultError, shortened
from evogt_study.text import shown

DECLARATION = "bagit.txt"
PAYLOAD = "data"
MANIFEST, TAG_MANIFEST = "manifest-sha256.txt", "tagmanifest-sha256.txt"
_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
"""RFC 8493, 2.1.3: what a path in a manifest cannot hold as it is."""
# sha256sum puts * before files that it read as binary
_LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?(.+)")


def write_bag(folder: Path, info: Mapping[str, str]) -> None:
    """Make a bag of a folder that has its payload.

    info: the lines of bag-info.txt, to which the payload's size is added.
    """
    payload = _files(folder / PAYLOAD)
    size = sum(path.stat().st_size for path in payload)
    # bytes and files, by which a copy that is not whole is recognised without reading it (RFC 8493, 2.2.2)
    lines = {**info, "Payload-Oxum": f"{size}.{len(payload)}"}
    _write_file(folder / DECLARATION, "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n")
    _write_file(
        folder / "bag-info.txt", "".join(f"{name}: {shown(' '.join(text.split()))}\n" for name, text in lines.items())
    )
    _write_file(folder / MANIFEST, _manifest(folder, payload))
    # after the other tag files, which this manifest lists; itself it cannot
    tags = [path for path in _files(folder) if path not in payload]
    _write_file(folder / TAG_MANIFEST, _manifest(folder, tags))


def bag_findings(folder: Path) -> Iterator[str]:
    """One line for each file that is missing, is not listed, or is not what its checksum says.

    Raises InputError for a folder that is no bag.
    """
    if not (folder / DECLARATION).is_file():
        raise InputError(
            f"`FILE` must be a result or a deposit of `evogt publish`, got {folder}, a folder without {DECLARATION}"
        )
    for name, root in ((MANIFEST, folder / PAYLOAD), (TAG_MANIFEST, folder)):
        listed = _listed(folder / name)
        for path, digest in listed.items():
            whole = folder / path
            # a bag comes from anywhere, and its manifest must not have files outside of it read
            if not _is_inside(path) or whole.is_symlink() or not whole.is_file():
                yield f"{name} lists {shortened(path)}, which is not there"
            elif _digest(whole) != digest:
                yield f"{path} is not the file that {name} lists: its SHA-256 is another"
        if name == MANIFEST:  # tag files that no manifest lists are allowed (RFC 8493)
            for each in _files(root):
                if (path := each.relative_to(folder).as_posix()) not in listed:
                    yield f"{path} is in no manifest"


def _is_inside(path: str) -> bool:
    """Return True for a path that stays in the folder it is relative to."""
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _manifest(folder: Path, paths: list[Path]) -> str:
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return "".join(f"{_digest(path)}  {_escaped(name)}\n" for name, path in names.items())


def _listed(manifest: Path) -> dict[str, str]:
    """Digests by path.  Raises ResultError for what is no manifest."""
    try:
        lines = manifest.read_text(encoding="utf-8").splitlines()
        found = [_LINE.fullmatch(line) for line in lines if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ResultError(f"cannot read {manifest}: {getattr(error, 'strerror', None) or error}") from None
    if None in found:
        raise ResultError(f"{manifest} must list a SHA-256 and a path on each line, got another line")
    # other programs write digests in capitals
    return {_plain(line[2]): line[1].lower() for line in found if line is not None}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _escaped(name: str) -> str:
    return "".join(_ESCAPES.get(letter, letter) for letter in name)


def _plain(name: str) -> str:
    for letter, escape in reversed(_ESCAPES.items()):  # the sign of escapes last
        name = re.sub(escape, letter, name, flags=re.IGNORECASE)
    return name


# "\n" on every system: else the same deposit would have other checksums on Windows
def _write_file(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")

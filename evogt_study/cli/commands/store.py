"""The command `evogt store`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from evogt_study.errors import InputError
from evogt_study.results.finished import Kept, move_store, prune_store, stored_runs, stores_in
from evogt_study.storage.lease import only_writer
from evogt_study.storage.paths import store_folder
from evogt_study.text import tell
from evogt_study.workers.signals import seconds

_places = click.argument("places", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))


@click.group()
def store() -> None:
    """List, prune or move finished runs that are kept beside results.

    They are runs that a study does not ask for now, since one of its lines was changed.  `evogt run` takes them when it
    asks for them again.
    """


@store.command("list")
@_places
def list_(places: tuple[Path, ...]) -> None:
    """Print runs and bytes that are kept beside each PATH, a result, or in it, a folder.  [default: results]

    A line for each change tells why they are not asked for, and when they were put there.
    """
    found = [stored_runs(result) for result in _results(places)]
    for each in found:
        tell(_told(each))
        for path, head in each.shards:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(path.stat().st_mtime))
            tell(f"  {when}  {len(head.keys):,} runs, {_size(head.size)}: {head.about or 'no reason recorded'}")
        for error in each.unread:
            tell(f"  {error}")
    if not found:
        tell("no runs are kept")


@store.command("prune")
@_places
@click.option("--older-than", metavar="TIME", help="Only what was put there that long ago: 90, 30m, 11h30m, 2d.")
def prune_(places: tuple[Path, ...], older_than: str | None) -> None:
    """Remove what is kept beside each PATH, a result, or in it, a folder.  It cannot be brought back."""
    if not places:
        raise InputError("`PATH` must be a result or a folder, got none; `evogt store list` shows what there is")
    before = None if older_than is None else time.time() - seconds(older_than, "--older-than")
    for result in _results(places):
        with only_writer(result):
            tell(f"removed {_told(prune_store(result, before))}")


@store.command("move")
@click.argument("source", metavar="FROM.nc", type=click.Path(path_type=Path))
@click.argument("target", metavar="TO.nc", type=click.Path(path_type=Path))
def move_(source: Path, target: Path) -> None:
    """Put what is kept beside the result FROM.nc beside TO.nc, whether they exist or not, on whatever disk."""
    if not store_folder(source).is_dir():
        raise _nothing_kept(source)
    with ExitStack() as locks:
        # in one order, so that two commands never wait for each other; a set, since both may be the same
        for result in sorted({source.resolve(), target.resolve()}):
            locks.enter_context(only_writer(result))
        tell(f"moved to {_told(move_store(source, target))}")


def _results(places: tuple[Path, ...]) -> Iterator[Path]:
    """The results with a store that are meant by `places`.  Raises InputError where a result has none."""
    for place in places or (Path("results"),):
        if place.is_dir() or not places:  # the default folder may not be there yet
            yield from stores_in(place)
        elif store_folder(place).is_dir():
            yield place
        else:
            raise _nothing_kept(place)


def _nothing_kept(result: Path) -> InputError:
    return InputError(f"`PATH` must be a result beside which runs are kept, or a folder, got {result}; there are none")


def _told(found: Kept) -> str:
    return f"{found.folder}: {found.runs:,} runs, {_size(found.size)}"


def _size(count: int) -> str:
    """Bytes in the unit that suits them."""
    unit = max((unit for unit in range(4) if count >= 1000**unit), default=0)
    return f"{count / 1000**unit:.3g} {('bytes', 'kB', 'MB', 'GB')[unit]}"

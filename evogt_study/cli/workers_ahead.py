"""Workers that start while the command still imports what it needs."""

from __future__ import annotations

from pathlib import Path

from evogt_study.workers.worker_server import start_ahead


# a path that is not there ends the command before it needs a worker
def workers_ahead(*paths: Path, elsewhere: bool = False) -> None:
    """Have workers on this machine import what they need while this process does, where they are sure to be needed."""
    if not elsewhere and all(path.exists() for path in paths):
        start_ahead()

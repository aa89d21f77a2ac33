import io
from dataclasses import replace
from errno import ENOSPC

from rich.console import Console

from evogt_study.cli.display import make_progress_bar, make_progress_rows, show_progress
from evogt_study.operations.progress import ProgressEvent

EVENT = ProgressEvent("main", reused=10, done=20, failed=0, total=60, seconds=4.0)
GREEN, RED = "\x1b[32m", "\x1b[31m"


def drawn(*events):
    """The bar as a terminal gets it after the last of these events."""
    bar = make_progress_bar()
    bar.live.console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=120)
    listener = make_progress_rows(bar)
    for event in events:
        listener(event)
    with bar.live.console.capture() as captured:
        bar.live.console.print(bar.get_renderable())
    return captured.get()


def test_the_bar_is_red_only_where_runs_failed():
    for event in (EVENT, replace(EVENT, done=50, final=True)):
        assert GREEN in drawn(EVENT, event)
        assert RED not in drawn(EVENT, event)
        assert GREEN not in drawn(EVENT, replace(event, failed=1))
        assert RED in drawn(EVENT, replace(event, failed=1))


def test_progress_that_cannot_be_printed_costs_no_runs(monkeypatch):
    def full(*_, **__):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stderr.write", full)
    with show_progress(quiet=False) as listener:
        listener(EVENT)
    monkeypatch.setattr("sys.stderr", None)  # of a process that was started without one
    with show_progress(quiet=False) as listener:
        assert listener is None

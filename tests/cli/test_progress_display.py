import io
from dataclasses import replace

from rich.console import Console

from evogt_study.cli.progress_bar import progress_bar
from evogt_study.cli.progress_display import _Bar
from evogt_study.operations.progress import Event

EVENT = Event("study", reused=10, done=20, failed=0, total=60, seconds=4.0)
GREEN, RED = "\x1b[32m", "\x1b[31m"


def drawn(*events):
    """The bar as a terminal gets it after the last of these events."""
    bar = progress_bar()
    bar.live.console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=120)
    listener = _Bar(bar)
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

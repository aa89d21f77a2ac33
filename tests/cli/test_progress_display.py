import io
import sys
from dataclasses import replace
from errno import ENOSPC

from evogt_study.cli.display import make_listener
from evogt_study.operations.progress import ProgressEvent
from evogt_study.text import CLEAR_LINE, print_line

EVENT = ProgressEvent("main", reused=10, done=20, failed=0, total=60, seconds=4.0)
GREEN, RED = "\x1b[32m", "\x1b[31m"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_is_red_only_where_runs_failed(monkeypatch):
    for event in (EVENT, replace(EVENT, done=50, final=True)):
        for failed, colour, other in ((0, GREEN, RED), (1, RED, GREEN)):
            monkeypatch.setattr("sys.stderr", Terminal())
            make_listener(quiet=False)(replace(event, failed=failed))
            print_line("a note", err=True)
            text = sys.stderr.getvalue()
            assert (colour in text, other in text, text.count("#")) == (True, False, 15 if event is EVENT else 30)
            assert text.endswith(f"{CLEAR_LINE}a note\n")  # which replaces a bar, and follows the last one
            assert ("\n" in text.removesuffix("a note\n")) is event.final


def test_progress_that_cannot_be_printed_costs_no_runs(monkeypatch):
    def full(*_, **__):
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stderr.write", full)
    make_listener(quiet=False)(EVENT)
    monkeypatch.setattr("sys.stderr", None)  # of a process that was started without one
    assert make_listener(quiet=False) is None

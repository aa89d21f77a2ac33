"""Progress of a study in a notebook: one bar and one line of text a phase, in the output of the cell that runs it."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

from evogt_study.operations.progress import Event, Listener, in_words
from evogt_study.text import shown

DISPLAY_SECONDS = 0.2
"""Between two changes of the output, which a person cannot tell from continuous ones; each is a message to the page."""


def notebook_display() -> Listener | None:
    """Return a new display where this process is the kernel of a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return None if getattr(shell, "kernel", None) is None else NotebookDisplay()


class NotebookDisplay:
    """Listener that shows the latest event of each phase."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.handle: Any = None
        self.shown_at = 0.0

    def __call__(self, event: Event) -> None:
        """Show the event, unless another has just been shown and this is not the last of its phase."""
        new = event.phase not in self.events
        self.events[event.phase] = event
        if new or event.final or time.monotonic() - self.shown_at > DISPLAY_SECONDS:
            self.shown_at = time.monotonic()
            self._show()

    def _show(self) -> None:
        if self.handle is None:
            from IPython.display import display  # IPython is no dependency: a notebook has it

            self.handle = display(self, display_id=True)
        else:
            self.handle.update(self)

    def __repr__(self) -> str:
        return "\n".join(shown(in_words(event)) for event in self.events.values())

    def _repr_html_(self) -> str:
        return "\n".join(map(_row, self.events.values()))


def _row(event: Event) -> str:
    """Make the bar of a phase, red where runs failed, with its words."""
    colour = "firebrick" if event.failed else "seagreen"
    return (
        f'<div><progress max="{max(event.total, 1)}" value="{event.reused + event.done}" '
        f'style="width: 16em; accent-color: {colour}"></progress> {escape(shown(in_words(event)))}</div>'
    )

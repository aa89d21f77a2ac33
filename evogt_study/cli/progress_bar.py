"""The progress bar of a running study, by Rich."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.progress import Task as Row
from rich.progress_bar import ProgressBar


class Bar(BarColumn):
    """A red bar if runs failed, else a green one.  The bar of Rich is red until it is full."""

    def render(self, task: Row) -> ProgressBar:
        """Draw the bar of one phase."""
        self.complete_style = self.finished_style = "red" if task.fields["failed"] else "green"
        return super().render(task)


def progress_bar() -> Progress:
    """Return a display on standard error with a bar and a text for each phase."""
    words = TextColumn("{task.fields[words]}", markup=False)
    return Progress(Bar(bar_width=30), words, console=Console(stderr=True))

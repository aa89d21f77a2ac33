"""The bar of a study that runs, by Rich."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.progress import Task as Row
from rich.progress_bar import ProgressBar


class Bar(BarColumn):
    """Red where runs failed, green where none did: Rich's own is red until it is full."""

    def render(self, task: Row) -> ProgressBar:
        """Draw the bar of one phase."""
        self.complete_style = self.finished_style = "red" if task.fields["failed"] else "green"
        return super().render(task)


def progress_bar() -> Progress:
    """A bar for each phase with its numbers in words, on stderr."""
    words = TextColumn("{task.fields[words]}", markup=False)
    return Progress(Bar(bar_width=30), words, console=Console(stderr=True))

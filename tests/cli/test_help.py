"""Help texts, the completion protocol of shells, and the start of the command."""

import os
from pathlib import Path

import pytest

from evogt_study.cli.main import COMMANDS, REGISTERED

GOLDEN = Path(__file__).with_name("help.txt")


def test_help_texts(evogt, monkeypatch):
    """After a wanted change, EVOGT_WRITE=1 writes the file again."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = "\n".join(
        f"$ evogt {name} --help\n{evogt(name, '--help')[1]}" for name in (*COMMANDS, *REGISTERED.list_installed())
    )
    if "EVOGT_WRITE" in os.environ:
        GOLDEN.write_text(shown)
    assert shown == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("shell", "words", "current", "expected"),
    [
        ("bash", "evogt ru", "1", "plain,run"),
        ("zsh", "evogt ru", "1", "plain\nrun\nRun the missing cases"),
        ("fish", "evogt ru", "ru", "plain,run\tRun the missing cases"),
        ("bash", "evogt run --dry", "2", "plain,--dry-run"),
        ("bash", "evogt summary own.nc --stat", "3", "plain,--statistic"),
    ],
)
def test_shells_complete_commands_and_options(evogt, monkeypatch, shell, words, current, expected):
    for name, value in {"_EVOGT_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": current}.items():
        monkeypatch.setenv(name, value)
    assert evogt()[1].startswith(expected)

"""Help texts, the completion protocol of shells, and the start of the command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evogt_study.cli.main import COMMANDS, REGISTERED

GOLDEN = Path(__file__).with_name("help.txt")


def test_help_texts(evogt, monkeypatch):
    """After a wanted change, write `shown` to the file."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = "\n".join(
        f"$ evogt {name} --help\n{evogt(name, '--help')[1]}" for name in (*COMMANDS, *REGISTERED.installed())
    )
    if "EVOGT_WRITE_HELP" in os.environ:
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
def test_shells_complete_commands_and_options(shell, words, current, expected):
    environment = {"_EVOGT_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": current}
    done = subprocess.run(
        [Path(sys.executable).with_name("evogt")], env=os.environ | environment, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(expected)

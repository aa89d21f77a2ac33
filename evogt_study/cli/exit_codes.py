"""Exit codes of the command line."""

from __future__ import annotations

# 2 is what Click ends with for wrong options; 130 is a shell's 128 + SIGINT
SOME_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

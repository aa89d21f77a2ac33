"""Exit codes of the command line."""

from __future__ import annotations

SOME_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

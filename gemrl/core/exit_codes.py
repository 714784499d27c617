"""Exit codes of the command line."""

from __future__ import annotations

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes for success, failure, wrong use and an interrupt."""

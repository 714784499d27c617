"""Keeps freed memory in the process, so that the next round does not have to request it again."""

from __future__ import annotations

import ctypes

M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -8, -3, -1
"""Parameters of glibc's `mallopt`."""


def keep_memory() -> None:
    """Makes glibc keep freed memory, in one arena for all threads. Does nothing with other C libraries.

    A round of GEM on Atari briefly needs 100 MB. Returning that to the system and requesting it again took a quarter of the time.
    Blocks larger than any array of a round are still returned, such as the copy of a memory that was read from a checkpoint.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    for parameter, value in ((M_ARENA_MAX, 1), (M_MMAP_THRESHOLD, 1 << 28), (M_TRIM_THRESHOLD, (1 << 31) - 1)):
        mallopt(parameter, value)

"""One seed reaches everything, each use through a stream of its own, so that none disturbs another."""

from __future__ import annotations

import zlib

import numpy as np


def derived_seed(seed: int, name: str, number: int = 0) -> int:
    """A seed for use `number` of the stream `name`, below 2^31."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(name.encode()), number])
    return int(sequence.generate_state(1)[0] >> 1)


def stream(seed: int, name: str) -> np.random.Generator:
    """A random generator for the use `name` alone."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))

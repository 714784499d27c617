"""All randomness comes from one seed, through a separate named stream for each use, so that uses do not affect each other."""

from __future__ import annotations

import zlib

import numpy as np


def derived_seed(seed: int, name: str, number: int = 0) -> int:
    """The seed number `number` of the stream `name`, below 2^31."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(name.encode()), number])
    return int(sequence.generate_state(1)[0] >> 1)


def stream(seed: int, name: str) -> np.random.Generator:
    """The random generator of the stream `name`."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode())]))

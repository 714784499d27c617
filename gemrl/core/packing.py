"""Observations with an image and numbers, packed into one array of bytes: pixels first, then each number as a 32-bit float.

So a memory keeps the pixels of each observation once and as bytes, as it does for images alone.
"""

from __future__ import annotations

import numpy as np

FLOAT_BYTES = 4
"""Bytes of a number."""


def pack(numbers: np.ndarray, pixels: int) -> np.ndarray:
    """Vectors [*B, D] whose first `pixels` numbers are bytes of an image, packed. [*B, pixels + 4 (D - pixels)]."""
    rest = np.ascontiguousarray(numbers[..., pixels:], dtype=np.float32).view(np.uint8)
    return np.concatenate([numbers[..., :pixels].astype(np.uint8), rest], axis=-1)


def unpack(packed: np.ndarray, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """The pixels [*B, pixels] and the numbers [*B, D - pixels] of packed vectors."""
    return packed[..., :pixels], np.ascontiguousarray(packed[..., pixels:]).view(np.float32)

"""Encoding of matplotlib figures as reproducible files."""

from __future__ import annotations

import io
import math
from typing import Any

MIN_PIXELS, MIN_DPI = 1600, 200
"""The smallest width and resolution of a PNG."""


def encoded(figure: Any, kind: str = "png") -> bytes:
    """The figure as a file of this kind; the bytes are reproducible because they contain no date and no version."""
    target = io.BytesIO()
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure.savefig(target, format=kind, dpi=resolution(figure.get_figwidth()), metadata=metadata[kind])
    return target.getvalue()


def resolution(width: float) -> int:
    """The dots per inch at which a figure of this width, in inches, has at least MIN_PIXELS columns."""
    return max(MIN_DPI, math.ceil(MIN_PIXELS / width))

"""Reads TOML files that a user writes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from gemrl.core.exceptions import BadValue, ModelFileError
from gemrl.core.reading import TOML_BYTES, read_limited

MAX_DOTS = 2000
"""The most dots in a line: the parser takes a time quadratic in the length of a dotted key."""


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a TOML file. Raises BadValue if it cannot be read or is not TOML."""
    try:
        text = read_limited(file, TOML_BYTES).decode()
        if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
            raise ValueError("a line has too many dots")
        return tomllib.loads(text)
    except ModelFileError as error:
        raise BadValue(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise BadValue(f"{file} is not valid TOML: {error}") from None

"""Reads files that may come from a stranger: only regular files of a limited size, and JSON without traps.

A FIFO or a device would block or never end, and a small file can unpack to gigabytes of objects.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gemrl.core.exceptions import MissingFile, ModelFileError

JSON_BYTES = 8 << 20
"""The largest run.json, study.json, state.json or finished.json."""

MODEL_BYTES = 128 << 20
"""The largest model.json, which holds the bounds of every number of an observation."""

TOML_BYTES = 64 << 10
"""The largest TOML file of a study."""

CSV_BYTES, CSV_ROWS = 256 << 20, 2_000_000
"""The largest CSV file, in bytes and in rows: a run of two billion steps."""

MAX_DEPTH, MAX_CONTAINERS, MAX_VALUES = 32, 1_000_000, 8_000_000
"""The deepest nesting of a JSON file, and the most lists, objects and values in it."""

_NOT_TEXT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
"""How JSON writes a NUL or half of a surrogate pair."""


def open_regular(path: str | os.PathLike[str], limit: int | None, *, links: bool = True) -> io.BufferedReader[io.FileIO]:
    """The regular file, opened for reading. Raises if it is anything else, or larger than `limit` bytes.

    Without `links`, a symbolic link is not followed.
    """
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for somebody to write to it.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        _check_regular(path, os.stat(path, follow_symlinks=links), limit)
        handle = os.open(path, flags if links else flags | os.O_NOFOLLOW)
        file = io.BufferedReader(io.FileIO(handle))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingFile(f"cannot read {path}: {error.strerror}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ModelFileError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        _check_regular(path, os.fstat(handle), limit)
    except ModelFileError:
        file.close()
        raise
    return file


def _check_regular(path: str | os.PathLike[str], found: os.stat_result, limit: int | None) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise ModelFileError(f"{path} is a link, which is not followed here")
    if not stat.S_ISREG(found.st_mode):
        raise ModelFileError(f"cannot read {path}: it is {'a folder' if stat.S_ISDIR(found.st_mode) else 'not a regular file'}")
    if limit is not None and found.st_size > limit:
        raise ModelFileError(f"cannot read {path}: it has {found.st_size:,} bytes, and {limit:,} is the limit")


def read_limited(path: str | os.PathLike[str], limit: int, *, links: bool = True) -> bytes:
    """The content of a regular file of at most `limit` bytes."""
    with open_regular(path, limit, links=links) as file:
        try:
            data = file.read(limit + 1)  # it may have grown
        except OSError as error:
            raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > limit:
        raise ModelFileError(f"cannot read {path}: it has more than {limit:,} bytes, which is the limit")
    return data


def parse_json(data: bytes, path: str | os.PathLike[str]) -> dict[str, Any]:
    """The object in a JSON text. Raises if it is not one, nested too deeply, too large, or not plain text; `path` names it."""
    try:
        if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS or data.count(b",") > MAX_VALUES:
            raise ValueError("too many values")
        text = data.decode()
        content = json.loads(text, object_pairs_hook=_distinct)
        _check_nesting(content, texts=_NOT_TEXT.search(text) is not None)
    except RecursionError:
        raise ModelFileError(f"{path} is damaged: its values are nested too deeply") from None
    except ValueError as error:
        reason = "not JSON" if isinstance(error, (json.JSONDecodeError, UnicodeError)) else error
        raise ModelFileError(f"{path} is damaged: {reason}") from None
    if not isinstance(content, dict):
        raise ModelFileError(f"{path} is damaged: not a JSON object")
    return content


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dict. A name that occurs twice would have another value for other readers of the file."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _check_nesting(content: Any, *, texts: bool) -> None:
    """Raises ValueError if containers are nested too deeply or, if `texts`, a string contains a NUL or a lone surrogate."""
    level, depth = [content], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError("its values are nested too deeply")
        inner: list[Any] = []
        for container in level:
            for value in (*container, *container.values()) if isinstance(container, dict) else container:
                if isinstance(value, (dict, list)):
                    inner.append(value)
                elif texts and isinstance(value, str) and not is_text(value):
                    raise ValueError("a string contains a NUL or half of a character")
        level = inner


def is_text(value: str) -> bool:
    """Whether a string has no NUL and no lone surrogate, so that it can be part of a path and be written as UTF-8."""
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


def csv_rows(
    data: bytes, path: str | os.PathLike[str], encoding: str = "utf-8", errors: str = "strict"
) -> Iterator[tuple[int, list[str]]]:
    """The line number and the fields of each row of a CSV file, one at a time. Raises ModelFileError if it is not one."""
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(data), encoding, errors, newline=""))
    try:
        for number, row in enumerate(reader):
            if number > CSV_ROWS:
                raise ModelFileError(f"{path} has more than {CSV_ROWS:,} rows")
            if row:
                yield reader.line_num, row
    except (csv.Error, UnicodeError) as error:
        raise ModelFileError(f"{path} is not a CSV file: {error}") from None


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a folder; unlike Path.is_dir, False for a name that no file can have."""
    return os.path.isdir(path)


def exists(path: Path) -> bool:
    """Whether something has this path, even a broken link; unlike Path.exists, False for a name that no file can have."""
    return os.path.lexists(path)

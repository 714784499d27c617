"""Files that are complete or not there, and whose every byte is checked before it is used. Reading them never runs code."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open

from gemrl.core.exceptions import ModelFileError

CHUNK = 1 << 22
"""Bytes read, written and hashed at once, so that no array is ever in memory twice."""

TYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "uint32": "U32", "uint8": "U8", "bool": "BOOL"}
"""The types of arrays that are written, as numpy and as safetensors name them."""

TEMPORARY, BEFORE = ".writing-", ".before-"
"""What names of unfinished files begin with, and of those whose place is being taken."""


@contextmanager
def replacing(*paths: Path) -> Iterator[list[BinaryIO]]:
    """Files to write, of one folder, that take the places of `paths` once all of them are complete and on the disk.

    The last one tells which others belong to it. Until it is there, what the others replace is kept beside them.
    """
    temporaries: list[Path] = []
    try:
        with ExitStack() as stack:
            files: list[BinaryIO] = []
            for path in paths:
                temporaries.append(path.with_name(f"{TEMPORARY}{path.name}-{secrets.token_hex(4)}"))
                files.append(stack.enter_context(temporaries[-1].open("xb")))
            yield files
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        for path in paths[:-1]:
            _keep(path)
        for temporary, path in zip(temporaries, paths, strict=True):
            os.replace(temporary, path)
    except BaseException:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
        raise
    for path in paths[:-1]:
        _before(path).unlink(missing_ok=True)
    sync_folder(paths[0].parent)


def _before(path: Path) -> Path:
    return path.with_name(f"{BEFORE}{path.name}")


def _keep(path: Path) -> None:
    """Gives a file a second name, where the file system has such a thing."""
    _before(path).unlink(missing_ok=True)
    with suppress(OSError):
        os.link(path, _before(path))


def sync_folder(folder: Path) -> None:
    """Brings a folder's names to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, data: bytes) -> str:
    """Replaces a file; the SHA-256 of what it holds."""
    with replacing(path) as (file,):
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def write_json(path: Path, content: Mapping[str, Any]) -> str:
    """Replaces a JSON file; its SHA-256."""
    return write_bytes(path, _json(content))


def write_sealed(path: Path, content: Mapping[str, Any]) -> str:
    """Replaces a JSON file that carries its own checksum as `seal`; the SHA-256 of the file."""
    return write_bytes(path, sealed(content))


def sealed(content: Mapping[str, Any]) -> bytes:
    """A JSON file that carries its own checksum as `seal`."""
    return _json({**content, "seal": _seal(content)})


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise ModelFileError(f"{path} is damaged: not JSON") from None
    if not isinstance(content, dict):
        raise ModelFileError(f"{path} is damaged: not a JSON object")
    return content


def read_sealed(path: Path, format_: int) -> dict[str, Any]:
    """What `write_sealed` wrote, if it is of this format and unaltered."""
    content = read_json(path)
    if content.get("format") != format_:
        raise ModelFileError(f"{path} has format {str(content.get('format'))[:20]}; this version of gemrl reads format {format_}")
    seal = content.pop("seal", None)
    if seal != _seal(content):
        raise ModelFileError(f"{path} is damaged: its checksum does not agree")
    return content


def _seal(content: Mapping[str, Any]) -> str:
    try:
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    except (RecursionError, UnicodeError):
        return ""


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from None


def check_digest(path: Path, digest: object) -> None:
    """Raises unless the file is there and has this SHA-256."""
    if digest_of(path) != digest:
        raise ModelFileError(f"{path} is damaged: its checksum does not agree")


def write_arrays(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> str:
    """Writes a safetensors file piece by piece, however large its arrays are; its SHA-256."""
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # so that each one is aligned
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        array = arrays[name]
        header[name] = {
            "dtype": TYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    for piece in (len(text).to_bytes(8, "little"), text, *(p for name in order for p in _pieces(arrays[name]))):
        digest.update(piece)
        file.write(piece)
    return digest.hexdigest()


def _pieces(array: np.ndarray) -> Iterator[bytes | memoryview[int]]:
    """The bytes of an array; a part that is not contiguous is copied row by row of its first axis."""
    if not array.flags.c_contiguous and array.ndim:
        for row in array:
            yield from _pieces(np.ascontiguousarray(row) if row.ndim <= 1 else row)
        return
    whole = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    for start in range(0, len(whole), CHUNK):
        yield whole[start : start + CHUNK]


def read_arrays(path: Path, digest: object) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file with this SHA-256. It holds no more than its size on the disk."""
    if digest_of(path) != digest:  # a save may have been cut short between its files
        path = _before(path) if _before(path).exists() else path
        check_digest(path, digest)
    try:
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None

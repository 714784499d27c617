"""Reading and writing files: writes are atomic, reads verify checksums and schemas. Reading a file never runs code."""

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

from gemrl.core.exceptions import BadValue, ModelFileError
from gemrl.core.reading import open_regular, parse_json, read_limited
from gemrl.core.resources import physical_memory
from gemrl.core.schema import ANY_JSON, FileKind, problem, shown

CHUNK = 1 << 22
"""Bytes that are written and hashed at a time, so that no array is held in memory twice."""

TYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "uint32": "U32", "uint8": "U8", "bool": "BOOL"}
"""The dtypes that can be written: numpy's names and safetensors' names."""

TEMPORARY, PREVIOUS = ".writing-", ".before-"
"""Filename prefixes of unfinished files, and of files that are kept while they are being replaced."""


@contextmanager
def replacing(*paths: Path) -> Iterator[list[BinaryIO]]:
    """Files to write, all in one folder; they replace `paths` once all of them are complete and flushed to disk.

    The last file holds the checksums of the others. Until it is replaced, the previous versions of the others are kept.
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
        _previous(path).unlink(missing_ok=True)
    sync_folder(paths[0].parent)


def _previous(path: Path) -> Path:
    return path.with_name(f"{PREVIOUS}{path.name}")


def _keep(path: Path) -> None:
    """Keeps the present version of a file under a second name (a hard link), if the file system supports it."""
    _previous(path).unlink(missing_ok=True)
    with suppress(OSError):
        os.link(path, _previous(path))


def sync_folder(folder: Path) -> None:
    """Flushes the folder's directory entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_bytes(path: Path, data: bytes) -> str:
    """Replaces a file atomically; returns the SHA-256 of its content."""
    with replacing(path) as (file,):
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def write_json(path: Path, content: Mapping[str, Any], kind: FileKind = ANY_JSON) -> str:
    """Replaces a JSON file atomically; returns its SHA-256. Raises BadValue if it could not be read again."""
    return write_bytes(path, _json(content, kind))


def write_sealed(path: Path, content: Mapping[str, Any], kind: FileKind = ANY_JSON) -> str:
    """Replaces a JSON file that contains its own checksum as `seal`; returns the SHA-256 of the file."""
    return write_bytes(path, sealed(content, kind))


def sealed(content: Mapping[str, Any], kind: FileKind = ANY_JSON) -> bytes:
    """The bytes of a JSON file that contains its own checksum as `seal`."""
    return _json({**content, "seal": _seal(content)}, kind)


def _json(content: Mapping[str, Any], kind: FileKind) -> bytes:
    """The bytes of a JSON file. Raises BadValue unless they can be read again."""
    data = (json.dumps(content, indent=2) + "\n").encode()
    try:
        if len(data) > kind.limit:
            raise ModelFileError(f"it would have {len(data):,} bytes, and {kind.limit:,} is the limit")
        if reason := problem(parse_json(data, "it"), kind.schema):
            raise ModelFileError(reason)
    except ModelFileError as error:
        raise BadValue(f"cannot write {kind.name}: {error}") from None
    return data


def read_json(path: Path, kind: FileKind = ANY_JSON, *, links: bool = True) -> dict[str, Any]:
    """The object in a JSON file. Raises if it does not fit its schema; `links` says whether a link is followed."""
    content = parse_json(read_limited(path, kind.limit, links=links), path)
    if reason := problem(content, kind.schema):
        raise ModelFileError(f"{path} is damaged: {reason}")
    return content


def read_sealed(path: Path, format_: int, kind: FileKind = ANY_JSON) -> dict[str, Any]:
    """The content that `write_sealed` wrote, without the seal. Raises if the format differs or the file was altered."""
    content = parse_json(read_limited(path, kind.limit), path)
    if content.get("format") != format_:
        raise ModelFileError(f"{path} has format {shown(content.get('format'))}; this version of gemrl reads format {format_}")
    seal = content.pop("seal", None)
    if seal != _seal(content):
        raise ModelFileError(f"{path} is damaged: its checksum does not match")
    if reason := problem(content, kind.schema):
        raise ModelFileError(f"{path} is damaged: {reason}")
    return content


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest_of(path: Path) -> str:
    """The SHA-256 of a regular file that would fit into the memory of this machine."""
    try:
        with open_regular(path, physical_memory()) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from None


def check_digest(path: Path, digest: object) -> None:
    """Raises unless the file exists and has this SHA-256."""
    if digest_of(path) != digest:
        raise ModelFileError(f"{path} is damaged: its checksum does not match")


def write_arrays(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> str:
    """Writes a safetensors file in chunks; returns its SHA-256."""
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))  # largest items first: all are aligned
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
    for chunk in (len(text).to_bytes(8, "little"), text, *(c for name in order for c in _chunks(arrays[name]))):
        digest.update(chunk)
        file.write(chunk)
    return digest.hexdigest()


def _chunks(array: np.ndarray) -> Iterator[bytes | memoryview[int]]:
    """The bytes of an array in chunks. A non-contiguous array is copied row by row along its first axis."""
    if not array.flags.c_contiguous and array.ndim:
        for row in array:
            yield from _chunks(np.ascontiguousarray(row) if row.ndim <= 1 else row)
        return
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    for start in range(0, len(data), CHUNK):
        yield data[start : start + CHUNK]


def read_arrays(path: Path, digest: object) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file with this SHA-256, which together are no larger than the file."""
    if digest_of(path) != digest:  # a save may have been interrupted between replacing two files
        path = _previous(path) if _previous(path).exists() else path
        check_digest(path, digest)
    try:
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{path} is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from None

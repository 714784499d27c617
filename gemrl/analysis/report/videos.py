"""The videos of runs in a report. A report is made to be sent, so nothing but a video of the run itself may get into it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gemrl.analysis.results.run import Run
from gemrl.core.exceptions import ModelFileError
from gemrl.core.reading import read_limited

VIDEO_LIMIT, TOTAL_VIDEO_LIMIT = 20_000_000, 100_000_000
"""The largest size, in bytes, of one video and of all videos in a page."""


class _Type(NamedTuple):
    """A type of video: its MIME type, and the bytes that such a file has at an offset."""

    name: str
    offset: int
    begins: tuple[bytes, ...]


VIDEO_TYPES = {
    ".mp4": _Type("video/mp4", 4, (b"ftyp",)),
    ".webm": _Type("video/webm", 0, (b"\x1aE\xdf\xa3",)),
    ".gif": _Type("image/gif", 0, (b"GIF87a", b"GIF89a")),
}


class Videos:
    """Reads the videos of runs as long as the size limits allow, and notes what is left out."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._left = TOTAL_VIDEO_LIMIT
        self.notes: list[str] = []

    def of(self, run: Run) -> list[dict[str, Any]]:
        """The videos in the folder of a run, base64-encoded."""
        found = []
        for file in self._files(run):
            kind = VIDEO_TYPES[file.suffix.lower()]
            try:
                data = self._read(file, kind)
            except ModelFileError as error:
                self._leave_out(file.name, run, str(error))
                continue
            self._left -= len(data)
            found.append({"name": file.name, "kind": kind.name, "data": base64.b64encode(data).decode()})
        return found

    def _files(self, run: Run) -> Iterator[Path]:
        """The files of a run that are named as videos. Links to other folders are not followed."""
        for folder in (run.folder, run.folder / "videos"):
            if not folder.is_dir():
                continue
            files = sorted(file for file in folder.iterdir() if file.suffix.lower() in VIDEO_TYPES and not file.is_dir())
            if files and (not folder.resolve().is_relative_to(self._root) or (folder != run.folder and folder.is_symlink())):
                self._leave_out(files[0].name if len(files) == 1 else f"{len(files)} videos", run, "its folder is a link")
            else:
                yield from files

    def _read(self, file: Path, kind: _Type) -> bytes:
        """The content of a video. Raises ModelFileError if it is too large or not a video."""
        data = read_limited(file, VIDEO_LIMIT, links=False)
        if len(data) > self._left:
            raise ModelFileError(f"it exceeds the limit of {TOTAL_VIDEO_LIMIT / 1e6:.0f} MB for all videos")
        if not data[kind.offset :].startswith(kind.begins):
            raise ModelFileError(f"it is not a {kind.name} file")
        return data

    def _leave_out(self, name: str, run: Run, reason: str) -> None:
        reason = reason.removeprefix(f"cannot read {run.folder}/")
        self.notes.append(f"{name} of {run.method} on {run.env}, seed {run.seed}, is left out: {reason}")

"""Films of a trained run."""

from __future__ import annotations

import ctypes.util
from pathlib import Path

import pytest

from gemrl.cli import main
from gemrl.errors import BadValue
from gemrl.video import prepare
from tests.test_cli import train

needs_egl = pytest.mark.skipif(ctypes.util.find_library("EGL") is None, reason="Debian's libegl1 is not installed")


@needs_egl
@pytest.mark.parametrize("ending", [".mp4", ".gif"])
def test_a_film_of_a_mujoco_task(tmp_path: Path, ending: str) -> None:
    imageio = pytest.importorskip("imageio.v2")
    assert train(tmp_path / "run", env="InvertedPendulum-v5") == 0
    film = tmp_path / "films" / f"film{ending}"
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1", "--video", str(film)]) == 0
    frames = [frame for frame in imageio.get_reader(film)]  # noqa: C416, list() asks ffmpeg for a length
    assert len(frames) >= 3
    assert frames[0].shape[:2] == (480, 480)
    assert frames[0].std() > 10  # something is drawn


def test_a_film_of_no_known_kind_is_refused() -> None:
    with pytest.raises(BadValue, match=r"a \.mp4 or a \.gif"):
        prepare(Path("film.avi"))

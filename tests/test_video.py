"""Videos of a trained run."""

from __future__ import annotations

import ctypes.util
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gemrl import GEM
from gemrl.analysis.video import check_video, record
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue, CannotMake, EnvironmentFault, MissingExtra
from gemrl.envs.making import NamedEnv
from tests.test_cli import train

needs_egl = pytest.mark.skipif(ctypes.util.find_library("EGL") is None, reason="Debian's libegl1 is not installed")


@needs_egl
@pytest.mark.parametrize("ending", [".mp4", ".gif"])
def test_video_of_a_mujoco_task(tmp_path: Path, ending: str) -> None:
    imageio = pytest.importorskip("imageio.v2")
    assert train(tmp_path / "run", env="InvertedPendulum-v5") == 0
    video = tmp_path / "videos" / f"video{ending}"
    assert main(["evaluate", str(tmp_path / "run"), "--episodes", "1", "--video", str(video)]) == 0
    frames = [frame for frame in imageio.get_reader(video)]  # noqa: C416, list() would ask ffmpeg for a length
    assert len(frames) >= 3
    assert frames[0].shape[:2] == (480, 480)
    assert frames[0].std() > 10  # the frame is not blank


def test_unknown_video_format_is_rejected() -> None:
    with pytest.raises(BadValue, match=r"a \.mp4 or \.gif"):
        check_video(Path("video.avi"), NamedEnv("InvertedPendulum-v5"))


@needs_egl
def test_existing_video_is_kept_until_a_new_one_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("imageio_ffmpeg")
    assert train(tmp_path / "run", env="InvertedPendulum-v5") == 0
    (tmp_path / "run" / "model.json").unlink()
    (tmp_path / "best.mp4").write_bytes(b"a video")
    for name in ("best.mp4", "new.mp4"):
        assert main(["evaluate", str(tmp_path / "run"), "--video", str(tmp_path / name)]) == 2
        assert "contains no trained model" in capsys.readouterr().err
    assert (tmp_path / "best.mp4").read_bytes() == b"a video"
    assert not (tmp_path / "new.mp4").exists()


def test_render_without_a_display_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert train(tmp_path / "run") == 0
    assert main(["evaluate", str(tmp_path / "run"), "--render"]) == 2
    assert "--render needs a display" in capsys.readouterr().err


def test_environment_errors_are_reported_alone(tmp_path: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    with pytest.raises(CannotMake, match=r"^cannot import 'nosuch'"):
        check_video(tmp_path / "video.mp4", NamedEnv("nosuch:Env-v0"))


class Drawn(gym.Env):
    """An environment that renders frames with odd sides and fails at a given step."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012, as in gymnasium
    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def __init__(self, render_mode: str | None = None, breaks_at: int = 100) -> None:
        self.render_mode, self.breaks_at, self.steps = render_mode, breaks_at, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(1, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps == self.breaks_at:
            raise OSError("the cable is loose")
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def render(self) -> np.ndarray:
        return np.full((51, 51, 3), 5 * self.steps % 255, np.uint8)


@pytest.mark.parametrize("ending", [".mp4", ".gif"])
def test_odd_frame_sizes_and_errors_during_recording(ending: str, tmp_path: Path) -> None:
    """A video is complete, or the older one is kept."""
    pytest.importorskip("imageio_ffmpeg")
    imageio = pytest.importorskip("imageio.v2")
    gym.register("Drawn-v0", "tests.test_video:Drawn", max_episode_steps=9)
    model, path = GEM("Drawn-v0", seed=0), tmp_path / f"video{ending}"
    assert record(model, NamedEnv("Drawn-v0"), 0, path) == 10
    assert len([frame for frame in imageio.get_reader(path)]) == 10  # noqa: C416
    before = path.read_bytes()
    with pytest.raises(EnvironmentFault, match="the cable is loose"):
        record(model, NamedEnv("Drawn-v0", {"breaks_at": 3}), 0, path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_missing_rendering_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, CartPole without pygame."""
    pytest.importorskip("imageio_ffmpeg")

    def render(_: Drawn) -> np.ndarray:
        raise gym.error.DependencyNotInstalled("pygame is not installed")

    monkeypatch.setattr(Drawn, "render", render)
    gym.register("Undrawn-v0", "tests.test_video:Drawn", max_episode_steps=9)
    with pytest.raises(MissingExtra, match=r"cannot render: pygame is not installed; pip install 'gemrl\[video\]'"):
        record(GEM("Undrawn-v0", seed=0), NamedEnv("Undrawn-v0"), 0, tmp_path / "video.mp4")

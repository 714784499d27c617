"""Videos of a policy, and a window to watch it in."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from gemrl.core.exceptions import BadValue, CannotMake, EnvironmentFault, MissingExtra
from gemrl.core.files import TEMPORARY
from gemrl.core.reading import exists
from gemrl.core.seeding import derived_seed
from gemrl.core.steps import EPISODE_CAP
from gemrl.envs.checking import checked_reset, checked_step
from gemrl.envs.making import NamedEnv

if TYPE_CHECKING:
    from gemrl.training.model import Model

OFFSCREEN = "off-screen rendering failed ({}): install Debian's libegl1, or set MUJOCO_GL to a backend of this machine"


def check_video(path: Path, make_env: NamedEnv) -> None:
    """Raises unless a video can be recorded. Selects MuJoCo's rendering backend, so call it before making an environment."""
    if path.suffix not in (".mp4", ".gif"):
        raise BadValue(f"a video must be a .mp4 or .gif file, not {path.name!r}")
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        import imageio.v2  # noqa: F401

        if path.suffix == ".mp4":
            import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise MissingExtra("videos need imageio and ffmpeg: pip install 'gemrl[video]'") from None
    check_mode(make_env, "rgb_array")
    try:
        make_env(render_mode="rgb_array").close()
    except RuntimeError as error:
        raise EnvironmentFault(OFFSCREEN.format(error)) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if exists(path) and (path.is_symlink() or not path.is_file()):
            raise BadValue(f"cannot write {path}: it is not a regular file")
        with TemporaryFile(dir=path.parent):  # tests write access without changing an existing video
            pass
    except OSError as error:
        raise BadValue(f"cannot write {path}: {error.strerror or error}") from None


def check_mode(make_env: NamedEnv, mode: str) -> None:
    """Raises unless the environment supports this render mode."""
    env = make_env()
    modes = env.metadata.get("render_modes", [])
    env.close()
    if mode not in modes:
        raise BadValue(f"{make_env.env_id} cannot be rendered: its metadata does not list the render mode {mode!r}")


def check_screen() -> None:
    """Raises if there is no display to open a window on."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise CannotMake("--render needs a display, but DISPLAY is not set; use --video FILE to record a video without one")


def record(model: Model, make_env: NamedEnv, seed: int, path: Path) -> int:
    """Records the first evaluation episode and returns the number of frames. Only a complete video replaces an older one."""
    import imageio.v2 as imageio

    count = 0
    # A temporary folder, so that an error leaves no partial file behind, not even one that ffmpeg still writes to.
    temporary = TemporaryDirectory(dir=path.parent, prefix=TEMPORARY, ignore_cleanup_errors=True)
    with closing(make_env(render_mode="rgb_array")) as env, warnings.catch_warnings(), temporary as folder:
        new = Path(folder, path.name)
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # the fork executes ffmpeg at once: no deadlock
        rate = env.metadata.get("render_fps", 30)
        mp4, gif = {"fps": rate, "macro_block_size": 1}, {"duration": 1000 / rate, "loop": 0}
        writer: Any = imageio.get_writer(new, **(mp4 if path.suffix == ".mp4" else gif))
        with writer:
            for _ in _episode(model, env, seed):
                writer.append_data(_frame(env))
                count += 1
        if not new.exists() or not new.stat().st_size:
            raise EnvironmentFault(f"could not record a video of {make_env.env_id}: ffmpeg wrote nothing")
        os.replace(new, path)
    return count


def _frame(env: Any) -> np.ndarray:
    """The rendered environment [H, W, 3], cropped to even sides because video codecs require them."""
    try:
        frame = np.asarray(env.render())
    except gym.error.DependencyNotInstalled as error:
        raise MissingExtra(f"cannot render: {error}; pip install 'gemrl[video]' installs pygame, which CartPole needs") from None
    except Exception as error:
        raise EnvironmentFault(OFFSCREEN.format(error)) from None
    height, width = frame.shape[:2]
    return frame[: max(height - height % 2, 1), : max(width - width % 2, 1)]


def watch(model: Model, make_env: NamedEnv, seed: int) -> None:
    """Shows the first evaluation episode in a window."""
    with closing(make_env(render_mode="human")) as env:
        for _ in _episode(model, env, seed):
            env.render()


def _episode(model: Model, env: Any, seed: int) -> Iterator[None]:
    """Plays the first evaluation episode and yields at every state."""
    spaces = model.spaces
    observation = checked_reset(env, derived_seed(seed, "evaluation episode"), spaces, "reset for a video")
    yield
    for step in range(1, EPISODE_CAP + 1):
        action = model.agent.act(observation[None])[0]
        outcome = checked_step(env, action, spaces, f"step {step} of a video")
        observation = outcome.observation
        yield
        if outcome.terminated or outcome.truncated:
            break

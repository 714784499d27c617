"""Films of a policy, and a window to watch it in."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from gemrl.core.exceptions import BadValue, CannotMake, EnvironmentFault, MissingExtra
from gemrl.core.files import TEMPORARY
from gemrl.core.seeding import derived_seed
from gemrl.core.steps import EPISODE_CAP
from gemrl.envs.checking import checked_reset, checked_step
from gemrl.envs.making import NamedEnv

if TYPE_CHECKING:
    from gemrl.training.model import Model

OFFSCREEN = "off-screen drawing failed ({}): install Debian's libegl1, or set MUJOCO_GL to what this machine has"


def check_film(path: Path, place: NamedEnv) -> None:
    """Raises unless a film can be made; and chooses how MuJoCo draws, so it must come before any environment is made."""
    if path.suffix not in (".mp4", ".gif"):
        raise BadValue(f"a film is a .mp4 or a .gif file, not {path.name!r}")
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        import imageio.v2  # noqa: F401

        if path.suffix == ".mp4":
            import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise MissingExtra("films need what is not installed: pip install 'gemrl[video]'") from None
    check_mode(place, "rgb_array")
    try:
        place(render_mode="rgb_array").close()
    except RuntimeError as error:
        raise EnvironmentFault(OFFSCREEN.format(error)) from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        with path.open("ab"):  # which leaves an older film as it is, until there is a new one
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise BadValue(f"cannot write {path}: {error.strerror or error}") from None


def check_mode(place: NamedEnv, mode: str) -> None:
    """Raises unless the environment can be drawn in this mode."""
    env = place()
    modes = env.metadata.get("render_modes", [])
    env.close()
    if mode not in modes:
        raise BadValue(f"{place.env_id} cannot be drawn: its metadata name no render mode {mode!r}")


def check_screen() -> None:
    """Raises where there is no screen to show a window on."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise CannotMake("--render needs a screen, and DISPLAY is not set; --video FILE films without one")


def film(model: Model, place: NamedEnv, seed: int, path: Path) -> int:
    """Films the first evaluation episode; how many frames it has. An older film stays until the new one is complete."""
    import imageio.v2 as imageio

    count = 0
    # In a folder of its own, which takes with it what a fault leaves unfinished, and what ffmpeg may write after that.
    beside = TemporaryDirectory(dir=path.parent, prefix=TEMPORARY, ignore_cleanup_errors=True)
    with closing(place(render_mode="rgb_array")) as env, warnings.catch_warnings(), beside as folder:
        new = Path(folder, path.name)
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # ffmpeg is forked and at once replaced: no deadlock
        rate = env.metadata.get("render_fps", 30)
        mp4, gif = {"fps": rate, "macro_block_size": 1}, {"duration": 1000 / rate, "loop": 0}
        writer: Any = imageio.get_writer(new, **(mp4 if path.suffix == ".mp4" else gif))
        with writer:
            for _ in _episode(model, env, seed):
                writer.append_data(_drawn(env))
                count += 1
        if not new.exists() or not new.stat().st_size:
            raise EnvironmentFault(f"no film of {place.env_id} could be made: ffmpeg wrote nothing")
        os.replace(new, path)
    return count


def _drawn(env: Any) -> np.ndarray:
    """The environment as a picture [H, W, 3], of even sides, since films have no other."""
    try:
        frame = np.asarray(env.render())
    except gym.error.DependencyNotInstalled as error:
        raise MissingExtra(f"cannot draw it: {error}; pip install 'gemrl[video]' brings what CartPole needs") from None
    except Exception as error:
        raise EnvironmentFault(OFFSCREEN.format(error)) from None
    height, width = frame.shape[:2]
    return frame[: max(height - height % 2, 1), : max(width - width % 2, 1)]


def watch(model: Model, place: NamedEnv, seed: int) -> None:
    """Shows the first evaluation episode in a window."""
    with closing(place(render_mode="human")) as env:
        for _ in _episode(model, env, seed):
            env.render()


def _episode(model: Model, env: Any, seed: int) -> Iterator[None]:
    """Plays the first evaluation episode, pausing at every state."""
    spaces = model.spaces
    observation = checked_reset(env, derived_seed(seed, "evaluation episode"), spaces, "reset for a film")
    yield
    for step in range(1, EPISODE_CAP + 1):
        action = model.agent.act(observation[None])[0]
        outcome = checked_step(env, action, spaces, f"step {step} of a film")
        observation = outcome.observation
        yield
        if outcome.terminated or outcome.truncated:
            break

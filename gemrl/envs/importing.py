"""Imports modules by name, and says what is missing if that fails."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

from gemrl.core.exceptions import CannotMake, MissingExtra
from gemrl.envs.packages import requirement_of

EXTRAS = {"mujoco": "mujoco", "imageio": "mujoco", "Box2D": "box2d", "box2d": "box2d", "pygame": "box2d"}
EXTRAS |= {"ale_py": "atari", "cv2": "atari", "opencv": "atari", "minatar": "minatar"}
"""The extra of gemrl that installs a module which an environment needs."""


def import_named(module: str) -> ModuleType:
    """The module with this name, also from the current folder."""
    if "" not in sys.path and os.getcwd() not in sys.path:  # an installed command does not search the current folder
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        if missing in EXTRAS:
            raise MissingExtra(f"{missing} is not installed: pip install 'gemrl[{EXTRAS[missing]}]'") from None
        if requirement := requirement_of(missing):
            raise MissingExtra(f"{missing} is not installed: pip install {requirement}") from None
        raise CannotMake(f"cannot import {module!r}: {first_line(error)}") from None
    except Exception as error:
        raise CannotMake(f"importing {module!r} failed: {first_line(error)}") from None


def first_line(error: object) -> str:
    """The first line of a message, without its full stop."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")

"""Trajectories that a user hands to a model, as agents see them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from gemrl.core.exceptions import DataError
from gemrl.core.layout import Layout
from gemrl.core.steps import Trajectory
from gemrl.envs.spaces import Spaces
from gemrl.envs.trajectories import checked_trajectories


def as_trajectories(episodes: Iterable[Mapping[str, Any] | Trajectory], spaces: Spaces) -> list[Trajectory]:
    """The episodes, each a mapping of arrays or a trajectory. Raises unless all of them fit these spaces."""
    if isinstance(episodes, (str, os.PathLike)):
        raise DataError(f"remember takes episodes, not a path: model.remember(gemrl.read_data({str(episodes)!r}, model))")
    if isinstance(episodes, Mapping):
        raise DataError("remember takes a list of episodes: model.remember([episode])")
    found: list[Trajectory] = []
    for number, episode in enumerate(episodes):
        if isinstance(episode, Trajectory):
            _check_layout(episode, spaces.layout, number)
            found.append(episode)
        elif isinstance(episode, Mapping):
            found += checked_trajectories(spaces, episode, "episodes", episode=number)
        else:
            raise DataError(f"episode {number} must be a dict of arrays, not {type(episode).__name__}")
    if not found:
        raise DataError("there are no episodes to remember")
    return found


def _check_layout(episode: Trajectory, layout: Layout, number: int) -> None:
    """Raises unless a trajectory has the shapes and dtypes of this layout."""
    steps = episode.steps
    expected = [((steps + 1, *layout.observation), layout.dtype), ((steps, layout.action), layout.action_dtype)]
    if [(array.shape, str(array.dtype)) for array in (episode.observation, episode.action)] != expected:
        raise DataError(f"episode {number} was read for a model with other spaces: read it again with this model")

"""Exports the policy of a model, and checks what was written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from gymnasium.spaces import Box, Discrete

from gemrl.core.exceptions import ModelFileError, RunFolderError
from gemrl.core.files import replacing
from gemrl.core.layout import Layout
from gemrl.core.policy_graph import PolicyGraph
from gemrl.training.export.describing import policy_graph
from gemrl.training.export.formats import Format, format_named

if TYPE_CHECKING:
    from gemrl.training.model import Model

CHECKED, TOLERANCE = 32, 1e-4
"""Observations of the check after writing, and the error that it allows as a fraction of the largest action."""

AGREEING = 0.9
"""The least fraction of them with equal actions: two discrete actions may have equal values up to rounding."""


def export_policy(model: Model, folder: str | os.PathLike[str], name: str) -> list[Path]:
    """Writes the policy of a model in the format of this name; returns the files. Existing files are never replaced."""
    chosen, target = format_named(name), Path(folder)
    chosen.check(target)
    graph = policy_graph(model)
    chosen.check_expresses(graph, name)
    paths = [target / file for file in chosen.files]
    try:
        target.mkdir(parents=True, exist_ok=True)
        with replacing(*paths) as files:
            for file, content in zip(files, chosen.contents(graph), strict=True):
                file.write(content)
    except OSError as error:
        raise RunFolderError(f"cannot write to {target}: {error.strerror or error}") from None
    try:
        _check(model, graph, chosen, paths[0])
    except ModelFileError:
        paths[0].unlink()
        raise
    return paths


def _check(model: Model, graph: PolicyGraph, chosen: Format, file: Path) -> None:
    """Raises unless the written policy acts like the model."""
    if chosen.run is None:
        return
    observations, spaces = random_observations(model.spaces.seen, CHECKED), model.spaces
    if spaces.layout.masked:
        _add_masks(observations, spaces.layout)
    expected = spaces.env_action(model.agent.act(np.stack([spaces.converted(one) for one in observations])))
    found = chosen.run(file, observations.astype(graph.observation.dtype))
    error = np.abs(found.astype(np.float64) - expected.astype(np.float64)).reshape(CHECKED, -1).max(axis=1)
    largest = max(1.0, float(np.abs(expected.astype(np.float64)).max()))
    if not (error <= TOLERANCE * largest).mean() >= AGREEING:
        raise ModelFileError(f"{file} does not act like the model: its actions differ by up to {error.max():.2g}")


def _add_masks(observations: np.ndarray, layout: Layout) -> None:
    """Turns the ends of random vectors [n, D + A] into masks that allow at least one action, in place."""
    mask, rows = observations[:, -layout.choices :], np.arange(len(observations))
    mask[:] = mask > 0
    mask[rows, rows % layout.choices] = 1
    if layout.states:
        observations[:, 0] = rows % layout.states


def random_observations(space: Box | Discrete, count: int) -> np.ndarray:
    """Observations of about unit size within the bounds of a space, always the same [count, *shape]."""
    rng = np.random.default_rng(0)
    if isinstance(space, Discrete):
        return space.start + rng.integers(space.n, size=count)
    drawn = rng.standard_normal((count, *space.shape))
    values = drawn if space.dtype.kind == "f" else np.rint(100 * drawn)
    return np.clip(values, space.low, space.high).astype(space.dtype)

"""The policy of a model as data, from the environment's observations to the environment's actions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from gymnasium.spaces import Box, Discrete

from gemrl.agents.describing import describe_agent
from gemrl.core.policy_graph import OBSERVATION, GraphBuilder, PolicyGraph, Port
from gemrl.envs.actions import Combined

if TYPE_CHECKING:
    from gemrl.envs.spaces import Spaces
    from gemrl.training.model import Model


def policy_graph(model: Model) -> PolicyGraph:
    """The deterministic policy of a model: the actions of `model.predict(observation, deterministic=True)`."""
    builder, spaces = GraphBuilder(), model.spaces
    result = describe_agent(builder, model.agent, spaces.layout, _agent_observation(builder, spaces))
    action = spaces.action_space
    if isinstance(action, Box):
        _scale(builder, action, result)
    else:
        _number(builder, spaces, builder.add("argmax", result))
    dtype = "int64" if spaces.layout.states else "float32" if spaces.layout.picture else spaces.layout.dtype
    shapes = (tuple(space.shape or ()) for space in (spaces.seen, action))
    graph = builder.graph(*map(Port, shapes, (dtype, str(action.dtype))))
    entries = spaces.entries if spaces.flattening and spaces.entries[0].path else ()
    return replace(graph, entries=tuple(("/".join(map(str, entry.path)), entry.size) for entry in entries))


def _number(builder: GraphBuilder, spaces: Spaces, chosen: str) -> None:
    """Adds the conversion of the numbers of discrete actions [B] to actions of the environment."""
    if isinstance(spaces.action_space, Discrete):
        builder.add("add", chosen, builder.array("start", np.int64(spaces.action_space.start)))
    elif isinstance(spaces.actions, Combined):
        table = builder.array("combinations", spaces.actions.table)
        builder.add("rows", table, builder.add("reshape", chosen, shape=[1]))


def _agent_observation(builder: GraphBuilder, spaces: Spaces) -> str:
    """Observations of the environment as the agent sees them [B, *O]."""
    x, layout = OBSERVATION, spaces.layout
    if isinstance(spaces.seen, Discrete) and spaces.seen.start:
        x = builder.add("subtract", x, builder.array("start", np.int64(spaces.seen.start)))
    if layout.picture:
        return builder.add("cast", x, dtype="float32")
    x = builder.add("cast", x, dtype=layout.dtype)
    if spaces.seen.shape != layout.observation:
        x = builder.add("reshape", x, shape=list(layout.observation))
    return x


def _scale(builder: GraphBuilder, space: Box, unit: str) -> None:
    """Adds the conversion of actions in [-1, 1] [B, A] to the bounds, dtype and shape of a Box."""
    # float64 only where the space needs it: few runtimes for small devices know it.
    real = np.dtype(np.float32 if space.dtype == np.float32 else np.float64)
    low, high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))
    x = builder.add("clip", unit, *(builder.array("bound", np.float32(bound)) for bound in (-1, 1)))
    x = builder.add("add", builder.add("cast", x, dtype=str(real)), builder.array("one", real.type(1)))
    x = builder.add("multiply", x, builder.array("half_range", ((high - low) / 2).astype(real)))
    bounds = [builder.array(name, bound.astype(real)) for name, bound in (("low", low), ("high", high))]
    x = builder.add("add", x, bounds[0])
    if space.dtype.kind in "iu":
        x = builder.add("round", x)
    x = builder.add("clip", x, *bounds)  # rounding may exceed the bounds
    builder.add("reshape", builder.add("cast", x, dtype=str(space.dtype)), shape=list(space.shape))

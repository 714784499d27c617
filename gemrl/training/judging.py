"""What a model is worth: its evaluation on any environment, and its Q-values in the environment's terms."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box

from gemrl.core.exceptions import BadValue
from gemrl.core.validation import check_number, check_seed
from gemrl.envs.making import EnvironmentMaker, NamedEnv
from gemrl.envs.spaces import Spaces
from gemrl.envs.vector import make_like
from gemrl.training.evaluation import Evaluation, Evaluator, evaluate_in

if TYPE_CHECKING:
    from gemrl.training.model import Model


def evaluate(model: Model, env: Any, episodes: int, seed: int | None) -> Evaluation:
    """Evaluates the deterministic policy on an id, by a function that makes environments, in one, or in new ones like its own."""
    check_number("episodes", episodes, 1, whole=True)
    seed = model.seed if seed is None else seed
    check_seed("seed", seed)
    if isinstance(env, gym.Env):
        Spaces.of(env).check_fits(model.spaces, for_memory=False)
        return evaluate_in(env, model.agent, episodes=episodes, seed=seed)
    evaluator = Evaluator(_maker(model, env), episodes=episodes, seed=seed)
    with closing(evaluator):
        evaluator.spaces.check_fits(model.spaces, for_memory=False)
        return evaluator(model.agent)


def _maker(model: Model, env: Any) -> EnvironmentMaker:
    """A function that makes the environments to evaluate in."""
    if env is None:
        if model.env is None:
            raise BadValue("this model has no environment: pass one, as in evaluate(env=...)")
        return lambda: make_like(model.env)  # its own environment may be in the middle of an episode
    if isinstance(env, str):
        return NamedEnv(env)
    if not callable(env):
        raise BadValue(f"env must be an id, a gymnasium.Env or a function that makes one, not {type(env).__name__}")
    maker: EnvironmentMaker = env
    return maker


def q_values(model: Model, observation: Any, action: Any) -> np.ndarray:
    """The mean Q-values of the critics: of the given actions, of all discrete ones, or of the policy's own."""
    spaces, agent = model.spaces, model.agent
    batch, several = spaces.batch(observation)
    if action is not None:
        values = agent.values(batch, _actions(spaces, action, len(batch), several))
    elif spaces.layout.choices:
        choices = spaces.layout.choices
        every = np.tile(np.arange(choices, dtype=np.int32), len(batch))[:, None]
        values = agent.values(np.repeat(batch, choices, axis=0), every).reshape(len(batch), choices)
    else:
        values = agent.values(batch, agent.act(batch))
    return values if several else values[0]


def _actions(spaces: Spaces, action: Any, count: int, several: bool) -> np.ndarray:
    """Actions of the environment as agents see them [B, A]. Raises unless there is one for each observation, in the space."""
    space, given = spaces.action_space, np.asarray(action)
    shape = ((count,) if several else ()) + tuple(space.shape or ())
    if given.shape != shape or given.dtype.kind not in "biuf":
        raise BadValue(
            f"action must be an array of shape {shape}, as the action space and the observations are, not {given.shape}"
        )
    given = given.reshape(count, *(space.shape or ()))
    if isinstance(space, Box):
        inside = (given >= space.low - SLACK) & (given <= space.high + SLACK)
    else:
        inside = np.array([space.contains(one) for one in given.astype(space.dtype)])
    if not inside.all():
        raise BadValue(f"action is {action}, which is not in the action space {space}")
    return spaces.agent_action(given)


SLACK = 1e-5
"""How far an action may exceed its bounds by rounding."""

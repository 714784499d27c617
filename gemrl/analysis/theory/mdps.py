"""Small MDPs as arrays, many at once, with their exact values: Q*, the paper's Q_max, and the value of a policy.

Action a in state s leads to s' with probability P(s'|s, a) and reward r(s, a, s'). Terminal states have value 0.
All arrays have a leading axis M: that many MDPs of one size, which are solved and learnt in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gemrl.core.exceptions import BadValue
from gemrl.core.validation import check_number

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class MDP:
    """M finite MDPs of S states and A actions."""

    transition: Array
    """P(s'|s, a) [M, S, A, S]."""
    reward: Array
    """r(s, a, s') [M, S, A, S]."""
    terminal: Array
    """Whether an episode ends in a state [M, S]."""
    start: Array
    """The distribution of the first state [M, S]."""
    gamma: float

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, 0, np.nextafter(1, 0))
        shape = self.transition.shape
        if len(shape) != 4 or shape[1] != shape[3] or self.reward.shape != shape:
            raise BadValue(f"transition and reward must both be [M, S, A, S]; got {shape} and {self.reward.shape}")
        if not self.terminal.shape == self.start.shape == shape[:2]:
            raise BadValue(f"terminal and start must both be [M, S]; got {self.terminal.shape} and {self.start.shape}")
        for name, rows in (("transition", self.transition), ("start", self.start)):
            if (rows < 0).any() or not np.allclose(rows.sum(-1), 1, rtol=0, atol=1e-12):
                raise BadValue(f"the rows of {name} must be probability distributions")

    @property
    def size(self) -> tuple[int, int, int]:
        """M, S and A."""
        return self.transition.shape[:3]

    @cached_property
    def cumulative(self) -> Array:
        """Cumulative transition probabilities over s' [M, S, A, S], for sampling."""
        rows = self.transition.cumsum(-1)
        rows[..., -1] = 1.0  # despite rounding
        return rows

    def repeat(self, count: int) -> MDP:
        """Each MDP repeated `count` times, to run several seeds of a learner."""
        arrays = (self.transition, self.reward, self.terminal, self.start)
        transition, reward, terminal, start = (np.repeat(array, count, axis=0) for array in arrays)
        return MDP(transition, reward, terminal, start, self.gamma)


def outcomes(mdp: MDP, value: Array) -> Array:
    """r(s, a, s') + gamma V(s') [M, S, A, S] for V [M, S]."""
    next_value = np.where(mdp.terminal, 0.0, mdp.gamma * value)
    return mdp.reward + next_value[:, None, None, :]


def expected(mdp: MDP, value: Array) -> Array:
    """The expected outcome of each pair (s, a) [M, S, A]."""
    return (mdp.transition * outcomes(mdp, value)).sum(-1)


def luckiest(mdp: MDP, value: Array) -> Array:
    """The best possible outcome of each pair (s, a) [M, S, A]."""
    return np.where(mdp.transition > 0, outcomes(mdp, value), -np.inf).max(-1)


def best(q: Array) -> Array:
    """max_a Q(s, a) [M, S]."""
    return q.max(-1)


def solve(mdp: MDP, backup: Callable[[MDP, Array], Array] = expected, choose: Callable[[Array], Array] = best) -> Array:
    """Q [M, S, A] with Q = backup(choose(Q)), by value iteration to machine precision."""
    q = np.zeros(mdp.size)
    # After k iterations the error is at most gamma^k times the initial one, which is at most r_max / (1 - gamma).
    iterations = int(np.ceil(np.log(np.finfo(float).eps * (1 - mdp.gamma) / 4) / np.log(max(mdp.gamma, 0.1))))
    for _ in range(iterations):
        before, q = q, np.where(mdp.terminal[..., None], 0.0, backup(mdp, choose(q)))
        if np.array_equal(before, q):
            break
    return q


def q_star(mdp: MDP) -> Array:
    """Q* [M, S, A]."""
    return solve(mdp)


def q_max(mdp: MDP) -> Array:
    """Q_max [M, S, A] as the paper defines it: every transition has its best possible outcome."""
    return solve(mdp, luckiest)


def mu(mdp: MDP) -> Array:
    """The smallest mu [M] for which each MDP is nearly deterministic: max over pairs of Q_max - Q*."""
    gap: Array = (q_max(mdp) - q_star(mdp)).max((1, 2))
    return gap


def greedy(q: Array) -> Array:
    """The greedy policy of Q as probabilities [M, S, A]; ties go to the first action."""
    return np.eye(q.shape[-1])[q.argmax(-1)]


def policy_value(mdp: MDP, policy: Array) -> Array:
    """V [M, S] of a policy given as probabilities [M, S, A], by a linear solve."""
    chain = np.einsum("msa,msat->mst", policy, mdp.transition)
    pay = np.einsum("msa,msat,msat->ms", policy, mdp.transition, mdp.reward)
    pay = np.where(mdp.terminal, 0.0, pay)
    followed = np.where(mdp.terminal[:, None, :] | mdp.terminal[:, :, None], 0.0, mdp.gamma * chain)
    value: Array = np.linalg.solve(np.eye(mdp.size[1]) - followed, pay[..., None])[..., 0]
    return value


def worst_admitted(mdp: MDP) -> Array:
    """V [M, S] of the worst policy that is greedy for some Q between Q* and Q_max.

    Action a can be greedy in s if Q_max(s, a) >= V*(s): take Q_max for a and Q* for the other actions.
    """
    star = q_star(mdp)
    admitted = q_max(mdp) >= best(star)[..., None] - 1e-12  # tolerate rounding in ties

    def worst(q: Array) -> Array:
        return np.where(admitted, q, np.inf).min(-1)

    return worst(solve(mdp, choose=worst))


def deterministic(follow: Array, reward: Array, terminal: Array, start: Array, gamma: float) -> MDP:
    """MDPs in which (s, a) leads to the state follow [M, S, A] with reward [M, S, A]."""
    states = follow.shape[1]
    pay = np.broadcast_to(reward[..., None], (*follow.shape, states)).astype(float)
    return MDP(np.eye(states)[follow], pay, terminal, start, gamma)


def chain(length: int = 10, gamma: float = 0.95) -> MDP:
    """A chain: right moves toward a reward of 1 at the end, left returns to the start for 0.01. Episodes start in any state."""
    check_number("length", length, 2, whole=True)
    state = np.arange(length)
    follow = np.stack([np.zeros_like(state), np.minimum(state + 1, length - 1)], axis=-1)
    reward = np.where(follow == length - 1, 1.0, 0.0) + np.array([0.01, 0.0])
    terminal = (state == length - 1)[None]
    return deterministic(follow[None], reward[None], terminal, _uniform_start(terminal), gamma)


def grid(rows: int = 4, columns: int = 4, step_reward: float = -1.0, gamma: float = 0.95) -> MDP:
    """A grid whose last corner is the goal; steps into a wall do not move. Episodes start in any other cell."""
    cell = np.arange(rows * columns)
    row, column = np.divmod(cell, columns)
    moves = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    follow = np.stack([np.clip(row + y, 0, rows - 1) * columns + np.clip(column + x, 0, columns - 1) for y, x in moves], -1)
    terminal = cell == cell[-1]
    reward = np.full(follow.shape, step_reward)
    return deterministic(follow[None], reward[None], terminal[None], _uniform_start(terminal[None]), gamma)


def random_deterministic(rng: np.random.Generator, count: int, states: int = 8, actions: int = 3, gamma: float = 0.8) -> MDP:
    """MDPs with random transitions and normal rewards; the last state is terminal, episodes start in any other."""
    follow = rng.integers(0, states, (count, states, actions))
    terminal = np.broadcast_to(np.arange(states) == states - 1, (count, states))
    return deterministic(follow, rng.normal(size=follow.shape), terminal, _uniform_start(terminal), gamma)


def random_stochastic(
    rng: np.random.Generator, count: int, states: int = 8, actions: int = 3, branches: int = 3, gamma: float = 0.8
) -> MDP:
    """MDPs with `branches` possible next states per pair (s, a), random probabilities, and a normal reward per pair."""
    shape = (count, states, actions)
    order = rng.random((*shape, states)).argsort(-1)
    weight = np.where(order < branches, rng.exponential(size=(*shape, states)), 0.0)
    terminal = np.broadcast_to(np.arange(states) == states - 1, (count, states))
    reward = np.broadcast_to(rng.normal(size=shape)[..., None], (*shape, states)).astype(float)
    return MDP(weight / weight.sum(-1, keepdims=True), reward, terminal, _uniform_start(terminal), gamma)


def near_deterministic(rng: np.random.Generator, target: Array, states: int = 5, actions: int = 3) -> MDP:
    """Random MDPs, one for each mu in `target` [M]: random bonuses are scaled to give exactly that mu."""
    count = len(target)
    plain = random_deterministic(rng, count, states, actions)
    one_step = plain.transition[:, :-1, :, -1].all((1, 2))  # every step terminates, so no bonus could ever be paid
    plain.transition[one_step, 0, 0] = np.eye(states)[0]
    chance, bonus = rng.uniform(0.02, 0.3, (count, states, actions)), rng.uniform(0, 1, (count, states, actions))
    low, high = np.zeros(count), np.ones(count)
    while (short := mu(_with_bonuses(plain, chance, bonus, high)) < target).any():
        high = np.where(short, 2 * high, high)
    for _ in range(34):  # mu is continuous in the scale and 0 at 0, so bisection finds it to ten digits
        middle = (low + high) / 2
        above = mu(_with_bonuses(plain, chance, bonus, middle)) >= target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return _with_bonuses(plain, chance, bonus, high)


def _with_bonuses(plain: MDP, chance: Array, bonus: Array, scale: Array) -> MDP:
    """Two copies of each state, ordinary and lucky: a step may lead to the lucky copy, where the next step pays a bonus."""
    count, states, actions = plain.size
    odds = np.stack([1 - chance, chance], axis=-1)
    transition = np.einsum("msat,msac->msact", plain.transition, odds).reshape(count, states, actions, 2 * states)
    pay = plain.reward[..., 0]
    lucky = pay + scale[:, None, None] * bonus
    reward = np.concatenate([pay, lucky], axis=1)[..., None]
    return MDP(
        np.concatenate([transition, transition], axis=1),
        np.broadcast_to(reward, (count, 2 * states, actions, 2 * states)).astype(float),
        np.tile(plain.terminal, 2),
        np.tile(plain.start, 2) / 2,  # episodes also start in lucky states, so all are visited
        plain.gamma,
    )


def _uniform_start(terminal: Array) -> Array:
    """The uniform distribution over the states that are not terminal."""
    probability: Array = ~terminal / (~terminal).sum(-1, keepdims=True)
    return probability

"""What episodic control is compared with: one-step bootstrapping on a table, as it comes or replayed as DQN does."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gemrl.algorithms.registry import NearestRecipe
from gemrl.core.seeding import stream
from gemrl.core.steps import Transition

STEP_SIZE = {False: 1.0, True: 0.1}
"""By whether the world slips: where a pair always leads to the same state, the whole step is the best one."""


@dataclass
class QLearning:
    """Q-learning from zeros for one environment, exploring as mfec does: untried pairs first, then epsilon-greedily."""

    recipe: NearestRecipe
    states: int
    choices: int
    seed: int
    step_size: float
    replays: int = 0
    """Rows of the past that are learnt again after each step."""
    copy_every: int = 1
    """Steps between two copies of the table to the one that bootstraps, as DQN has them."""
    rows: list[tuple[int, int, float, int, bool]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.q = np.zeros((self.states, self.choices))
        self._target = self.q if self.copy_every == 1 else self.q.copy()
        self._tried = np.zeros(self.q.shape, bool)
        self._noise, self._draws = stream(self.seed, "exploration"), stream(self.seed, "replays")

    @property
    def gamma(self) -> float:
        """The discount factor."""
        return self.recipe.gamma

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The best actions, the first of equally good ones. [B, 1] -> [B, 1]."""
        return self.q[observation[:, 0]].argmax(-1).astype(np.int32)[:, None]

    def explore(self, observation: np.ndarray, step: int) -> np.ndarray:
        """Random with the probability epsilon, else an untried one, else any of the best. [1, 1] -> [1, 1]."""
        state = int(observation[0, 0])
        if self._noise.random() < self.recipe.epsilon(step):
            return np.array([[self._noise.integers(self.choices)]], np.int32)
        worth = np.where(self._tried[state], self.q[state], np.inf)
        return np.array([[self._noise.choice(np.flatnonzero(worth == worth.max()))]], np.int32)

    def observe(self, transition: Transition) -> None:
        """Learns from a step, and from older ones."""
        if not transition.stored[0]:
            return
        state, action, following = (
            int(x[0, 0]) for x in (transition.observation, transition.action, transition.next_observation)
        )
        self.rows.append((state, action, float(transition.reward[0]), following, bool(transition.terminated[0])))
        self._tried[state, action] = True
        again = self._draws.integers(len(self.rows), size=self.replays)
        for row in (len(self.rows) - 1, *again):
            self._move(*self.rows[row])
        if self.copy_every > 1 and len(self.rows) % self.copy_every == 0:
            self._target = self.q.copy()

    def _move(self, state: int, action: int, reward: float, following: int, terminated: bool) -> None:
        target = reward + (0.0 if terminated else self.gamma * self._target[following].max())
        self.q[state, action] += self.step_size * (target - self.q[state, action])

    def abandon(self) -> None:
        """Nothing to end: each step is learnt on its own."""

    def refreshes(self, step: int) -> bool:
        """Never."""
        return False

    def rounds_due(self, before: int, step: int) -> list[int]:
        """None: it learns as it observes."""
        return []

    def learn(self, step: int) -> dict[str, float]:
        """Never due."""
        return {}

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Q(s, a). [B, 1], [B, 1] -> [B]."""
        return self.q[observation[:, 0], action[:, 0]]

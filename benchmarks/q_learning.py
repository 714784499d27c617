"""The baseline of episodic control: tabular one-step bootstrapping, online or with replay as in DQN."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gemrl.algorithms.registry import NearestRecipe
from gemrl.core.seeding import stream
from gemrl.core.steps import Transition

STEP_SIZE = {False: 1.0, True: 0.1}
"""The step size of deterministic (False) and slippery (True) worlds; 1 is best if transitions are deterministic."""


@dataclass
class QLearning:
    """Q-learning from zeros in one environment. Explores like mfec: untried actions first, then epsilon-greedily."""

    recipe: NearestRecipe
    states: int
    choices: int
    seed: int
    step_size: float
    replays: int = 0
    """The number of stored rows that are replayed after each step."""
    copy_every: int = 1
    """The number of steps between copies to the target table, as in DQN."""
    rows: list[tuple[int, int, float, int, bool]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.q = np.zeros((self.states, self.choices))
        self._target = self.q if self.copy_every == 1 else self.q.copy()
        self._tried = np.zeros(self.q.shape, bool)
        self._noise, self._replay = stream(self.seed, "exploration"), stream(self.seed, "replays")

    @property
    def gamma(self) -> float:
        """The discount factor."""
        return self.recipe.gamma

    def act(self, observation: np.ndarray) -> np.ndarray:
        """The greedy actions; ties go to the first. [B, 1] -> [B, 1]."""
        return self.q[observation[:, 0]].argmax(-1).astype(np.int32)[:, None]

    def explore(self, observation: np.ndarray, step: int) -> np.ndarray:
        """A random action with probability epsilon, else an untried one, else a greedy one. [1, 1] -> [1, 1]."""
        state = int(observation[0, 0])
        if self._noise.random() < self.recipe.epsilon(step):
            return np.array([[self._noise.integers(self.choices)]], np.int32)
        value = np.where(self._tried[state], self.q[state], np.inf)
        return np.array([[self._noise.choice(np.flatnonzero(value == value.max()))]], np.int32)

    def observe(self, transition: Transition) -> None:
        """Learns from a transition and from replayed ones."""
        if not transition.stored[0]:
            return
        state, action, following = (
            int(x[0, 0]) for x in (transition.observation, transition.action, transition.next_observation)
        )
        self.rows.append((state, action, float(transition.reward[0]), following, bool(transition.terminated[0])))
        self._tried[state, action] = True
        again = self._replay.integers(len(self.rows), size=self.replays)
        for row in (len(self.rows) - 1, *again):
            self._move(*self.rows[row])
        if self.copy_every > 1 and len(self.rows) % self.copy_every == 0:
            self._target = self.q.copy()

    def _move(self, state: int, action: int, reward: float, following: int, terminated: bool) -> None:
        target = reward + (0.0 if terminated else self.gamma * self._target[following].max())
        self.q[state, action] += self.step_size * (target - self.q[state, action])

    def abandon(self) -> None:
        """Does nothing: every step is learnt separately."""

    def refreshes(self, step: int) -> bool:
        """Always False: there are no refreshes."""
        return False

    def rounds_due(self, before: int, step: int) -> list[int]:
        """Always empty: learning happens in `observe`."""
        return []

    def learn(self, step: int) -> dict[str, float]:
        """Does nothing: learning happens in `observe`."""
        return {}

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Q(s, a). [B, 1], [B, 1] -> [B]."""
        return self.q[observation[:, 0], action[:, 0]]

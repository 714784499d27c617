"""Training metrics, named as in Stable-Baselines3."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Any

import numpy as np

from gemrl.algorithms.registry import AnyRecipe
from gemrl.core.steps import EpisodeResult
from gemrl.training.evaluation import Evaluation
from gemrl.training.loop import Event

PROGRESS_COLUMNS = (
    "time/total_timesteps",
    "time/episodes",
    "time/time_elapsed",
    "time/fps",
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "rollout/exploration_rate",
    "train/n_updates",
    "train/learning_rate",
    "train/critic_loss",
    "train/actor_loss",
    "train/ent_coef",
    "train/loss",
    "eval/mean_reward",
    "eval/mean_ep_length",
    "eval/capped_episodes",
    "eval/estimation_error",
)
"""Columns of progress.csv. Metrics that Stable-Baselines3 has too are named as there."""


class Metrics:
    """Collects training metrics from events."""

    def __init__(self, recipe: AnyRecipe) -> None:
        self._recipe = recipe
        self.start_at(0)
        self._finished: deque[EpisodeResult] = deque(maxlen=100)
        self._losses: dict[str, float] = {}
        self._rounds = 0
        self.episodes = 0

    def start_at(self, step: int) -> None:
        """Begins another call of `learn` at this step: time and speed are measured again, all counts continue."""
        self._started, self._first = monotonic(), step

    @property
    def updates(self) -> int:
        """Number of gradient steps so far; 0 for tabular agents."""
        return self._rounds * self._recipe.gradient_steps

    @property
    def finished(self) -> list[EpisodeResult]:
        """The last hundred episodes."""
        return list(self._finished)

    def facts(self) -> dict[str, Any]:
        """The state of these metrics as JSON values."""
        return {
            "elapsed": monotonic() - self._started,
            "finished": [list(episode) for episode in self._finished],
            "losses": self._losses,
            "rounds": self._rounds,
            "episodes": self.episodes,
        }

    def restore(self, facts: dict[str, Any]) -> None:
        """Restores the state that `facts` returned."""
        self._started = monotonic() - float(facts["elapsed"])
        self._finished.extend(EpisodeResult(float(total), int(length)) for total, length in facts["finished"])
        self._losses = {str(name): float(loss) for name, loss in facts["losses"].items()}
        self._rounds, self.episodes = int(facts["rounds"]), int(facts["episodes"])

    def update(self, event: Event) -> None:
        """Updates the metrics with an event."""
        ended = event.taken.ended if event.taken else []
        self._finished.extend(ended)
        self.episodes += len(ended)
        self._rounds += event.rounds
        # A round without a policy update has no policy loss, so the last one is kept.
        self._losses |= {name: loss for name, loss in (event.losses or {}).items() if not np.isnan(loss)}

    def row(self, step: int, evaluation: Evaluation | None) -> dict[str, float]:
        """The metrics at this step by name; means over episodes are over the last hundred."""
        elapsed = monotonic() - self._started
        row: dict[str, float] = {
            "time/total_timesteps": step,
            "time/episodes": self.episodes,
            "time/time_elapsed": round(elapsed, 3),
            "time/fps": round((step - self._first) / max(elapsed, 1e-9), 1),
        }
        if self._recipe.gradient_steps:  # tables report their updates and step sizes with their losses
            row["train/n_updates"] = self.updates
            row["train/learning_rate"] = float(self._recipe.learning_rate_at(step))
        if self._finished:
            row["rollout/ep_rew_mean"] = float(np.mean([episode.total for episode in self._finished]))
            row["rollout/ep_len_mean"] = float(np.mean([episode.length for episode in self._finished]))
        epsilon = self._recipe.epsilon(step)
        if epsilon is not None:
            row["rollout/exploration_rate"] = epsilon
        row |= {f"train/{name}": value for name, value in self._losses.items()}
        if evaluation:
            row["eval/mean_reward"] = evaluation.return_mean
            row["eval/mean_ep_length"] = evaluation.length_mean
            row["eval/capped_episodes"] = evaluation.capped
            row["eval/estimation_error"] = evaluation.estimation_error
        return row

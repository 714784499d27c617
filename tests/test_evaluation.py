"""Returns, caps and the estimation error, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from gemrl.algorithms.registry import GEM
from gemrl.algorithms.returns import discounted_returns
from gemrl.training.evaluation import KEPT, Evaluator
from tests import probes

GAMMA = 0.9


class Believer:
    """An agent that holds every pair to be worth `belief`."""

    gamma = GAMMA
    recipe = GEM

    def __init__(self, belief: float) -> None:
        self.belief = belief
        self.asked: list[int] = []

    def act(self, observation: np.ndarray) -> np.ndarray:
        self.asked.append(len(observation))
        return np.zeros((len(observation), 1), np.float32)

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        assert len(observation) == len(action)
        return np.full(len(observation), self.belief)

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"evaluation must not touch {name}")


def test_estimation_error_of_a_terminated_episode() -> None:
    """G = 1 + g + g^2, 1 + g, 1 in turn, whatever is believed of the end."""
    result = Evaluator(probes.Terminated, episodes=2)(Believer(5.0))  # type: ignore[arg-type]
    truth = np.mean([1 + GAMMA + GAMMA**2, 1 + GAMMA, 1])
    assert result.estimation_error == pytest.approx(5.0 - truth)
    assert result.returns == (3.0, 3.0)
    assert (result.lengths, result.capped) == ((3, 3), 0)


def test_estimation_error_of_a_truncated_episode() -> None:
    """A time limit adds gamma^(T-t) Q(s_T): whoever believes in the true value 1/(1-gamma) makes no error."""
    assert Evaluator(probes.Truncated, episodes=2)(Believer(1 / (1 - GAMMA))).estimation_error == pytest.approx(0)  # type: ignore[arg-type]
    belief = 4.0
    truth = [sum(GAMMA**i for i in range(left)) + GAMMA**left * belief for left in (3, 2, 1)]
    result = Evaluator(probes.Truncated, episodes=2)(Believer(belief))  # type: ignore[arg-type]
    assert result.estimation_error == pytest.approx(belief - np.mean(truth))


def test_an_episode_without_end_is_capped_and_marked() -> None:
    result = Evaluator(probes.Endless, episodes=3, cap=40)(Believer(1 / (1 - GAMMA)))  # type: ignore[arg-type]
    assert (result.lengths, result.capped) == ((40, 40, 40), 3)
    assert result.estimation_error == pytest.approx(0)


@pytest.mark.parametrize("length", [KEPT - 1, KEPT, KEPT + 1, 2 * KEPT])
def test_long_episodes_are_valued_in_parts(length: int) -> None:
    """Reward 1 for ever, believed to be worth 3: an error of 3 - G_t, with gamma^(T-t) 3 in G_t, at each of T steps."""
    left = np.arange(1, length + 1)
    truth = (1 - GAMMA**left) / (1 - GAMMA) + GAMMA**left * 3.0
    result = Evaluator(probes.Endless, episodes=1, cap=length)(Believer(3.0))  # type: ignore[arg-type]
    assert result.lengths == (length,)
    assert result.estimation_error == pytest.approx(np.mean(3.0 - truth))


def test_episodes_are_stepped_as_one_batch() -> None:
    agent = Believer(0.0)
    Evaluator(probes.Terminated, episodes=7)(agent)  # type: ignore[arg-type]
    assert agent.asked[:3] == [7, 7, 7]


def test_discounted_returns() -> None:
    np.testing.assert_allclose(discounted_returns(np.array([1.0, 2.0, 3.0]), 0.5, 8.0), [1 + 1 + 0.75 + 1, 2 + 1.5 + 2, 3 + 4])

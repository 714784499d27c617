"""Returns, capped episodes and the estimation error, compared with closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from gemrl.algorithms.registry import GEM
from gemrl.algorithms.returns import discounted_returns
from gemrl.training.evaluation import MAX_UNVALUED, Evaluator
from tests import probes

GAMMA = 0.9


class ConstantValue:
    """An agent whose value of every state-action pair is `value`."""

    gamma = GAMMA
    recipe = GEM

    def __init__(self, value: float) -> None:
        self.value = value
        self.batch_sizes: list[int] = []

    def act(self, observation: np.ndarray) -> np.ndarray:
        self.batch_sizes.append(len(observation))
        return np.zeros((len(observation), 1), np.float32)

    def values(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        assert len(observation) == len(action)
        return np.full(len(observation), self.value)

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"evaluation must not touch {name}")


def test_estimation_error_of_a_terminated_episode() -> None:
    """G is 1 + g + g^2, 1 + g and 1 in turn, whatever the value of the terminal state."""
    result = Evaluator(probes.Terminated, episodes=2)(ConstantValue(5.0))  # type: ignore[arg-type]
    truth = np.mean([1 + GAMMA + GAMMA**2, 1 + GAMMA, 1])
    assert result.estimation_error == pytest.approx(5.0 - truth)
    assert result.returns == (3.0, 3.0)
    assert (result.lengths, result.capped) == ((3, 3), 0)


def test_estimation_error_of_a_truncated_episode() -> None:
    """A time limit adds gamma^(T-t) Q(s_T), so the true value 1/(1-gamma) has no error."""
    assert Evaluator(probes.Truncated, episodes=2)(ConstantValue(1 / (1 - GAMMA))).estimation_error == pytest.approx(0)  # type: ignore[arg-type]
    value = 4.0
    truth = [sum(GAMMA**i for i in range(left)) + GAMMA**left * value for left in (3, 2, 1)]
    result = Evaluator(probes.Truncated, episodes=2)(ConstantValue(value))  # type: ignore[arg-type]
    assert result.estimation_error == pytest.approx(value - np.mean(truth))


def test_an_endless_episode_is_capped_and_counted() -> None:
    result = Evaluator(probes.Endless, episodes=3, cap=40)(ConstantValue(1 / (1 - GAMMA)))  # type: ignore[arg-type]
    assert (result.lengths, result.capped) == ((40, 40, 40), 3)
    assert result.estimation_error == pytest.approx(0)


@pytest.mark.parametrize("length", [MAX_UNVALUED - 1, MAX_UNVALUED, MAX_UNVALUED + 1, 2 * MAX_UNVALUED])
def test_values_of_long_episodes_are_computed_in_parts(length: int) -> None:
    """The reward is always 1 and every value is 3: the error at step t is 3 - G_t, where G_t includes gamma^(T-t) 3."""
    left = np.arange(1, length + 1)
    truth = (1 - GAMMA**left) / (1 - GAMMA) + GAMMA**left * 3.0
    result = Evaluator(probes.Endless, episodes=1, cap=length)(ConstantValue(3.0))  # type: ignore[arg-type]
    assert result.lengths == (length,)
    assert result.estimation_error == pytest.approx(np.mean(3.0 - truth))


def test_episodes_are_stepped_as_one_batch() -> None:
    agent = ConstantValue(0.0)
    Evaluator(probes.Terminated, episodes=7)(agent)  # type: ignore[arg-type]
    assert agent.batch_sizes[:3] == [7, 7, 7]


def test_discounted_returns() -> None:
    np.testing.assert_allclose(discounted_returns(np.array([1.0, 2.0, 3.0]), 0.5, 8.0), [1 + 1 + 0.75 + 1, 2 + 1.5 + 2, 3 + 4])

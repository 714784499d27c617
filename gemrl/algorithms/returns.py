"""Discounted returns of one episode."""

from __future__ import annotations

import numpy as np


def discounted_returns(rewards: np.ndarray, gamma: float, bootstrap: float = 0.0) -> np.ndarray:
    """G_t = r_t + gamma G_{t+1}, with G_T = bootstrap. [T] -> [T]."""
    returns = np.empty(len(rewards))
    following = bootstrap
    for t in reversed(range(len(rewards))):
        following = returns[t] = rewards[t] + gamma * following
    return returns

"""Twin back-propagation with dense matrices: for each trajectory of T steps a T x T matrix of all V[t, h], filled row by row.

The released code plans in this way. This version is written from equation 7 alone, as a reference for
`gemrl.algorithms.planning`.
"""

from __future__ import annotations

import numpy as np

Inputs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""reward [N], discount [N], last [N] and q_next [2, N], in time order."""


def rollouts(reward: np.ndarray, discount: np.ndarray, q_next: np.ndarray, depth: int) -> np.ndarray:
    """V[t, h] of one trajectory for one estimate, [T, min(T, depth)]; -inf where row t cannot be followed for h steps."""
    steps = len(reward)
    values = np.full((steps, min(steps, depth)), -np.inf, q_next.dtype)
    values[:, 0] = reward + discount * q_next
    for t in range(steps - 2, -1, -1):
        longest = min(steps - t, depth)
        values[t, 1:longest] = reward[t] + discount[t] * values[t + 1, : longest - 1]
    return values


def twin(reward: np.ndarray, discount: np.ndarray, last: np.ndarray, q_next: np.ndarray, depth: int) -> np.ndarray:
    """Planned returns [2, N]: equation 8 on the matrices of both estimates, trajectory by trajectory."""
    planned = np.empty_like(q_next)
    ends = np.flatnonzero(last) + 1
    for rows in np.split(np.arange(len(reward)), ends[ends < len(reward)]):
        first, second = (rollouts(reward[rows], discount[rows], estimate[rows], depth) for estimate in q_next)
        row = np.arange(len(rows))
        planned[0, rows] = second[row, first.argmax(axis=1)]
        planned[1, rows] = first[row, second.argmax(axis=1)]
    return planned


def trajectories(rows: int, length: int, seed: int = 0) -> Inputs:
    """Random trajectories of `length` steps in float32; every second one is cut off by a time limit, the others terminate."""
    rng = np.random.default_rng(seed)
    last = np.arange(rows) % length == length - 1
    terminated = last & (np.arange(rows) // length % 2 == 0)
    reward, q_next = rng.normal(size=rows).astype(np.float32), 10 * rng.normal(size=(2, rows)).astype(np.float32)
    return reward, np.where(terminated, 0, 0.99).astype(np.float32), last, q_next

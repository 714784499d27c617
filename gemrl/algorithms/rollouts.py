"""Rollouts of any length over all rows at once, by doubling: windows of 1, 2, 4, ... steps are joined, in O(N log depth).

It runs on numpy and JAX arrays alike; this module does not import JAX.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gemrl.core.arrays import Array


class Rollout(NamedTuple):
    """The chosen rollout of each row. Each [K, *B, N]."""

    own: Array  # its value by the estimate that chose it
    other: Array  # its value by the estimate that evaluates it, which is the return
    length: Array
    reward: Array  # the discounted sum of the rewards along it


class Window(NamedTuple):
    """A number of steps along the trajectory from each row. Each [*B, N]."""

    reward: Array  # the discounted sum of rewards; -inf if no row follows the window
    discount: Array  # the product of discounts


def fold(
    reward: Array, discount: Array, last: Array, choose: Array, value: Array, depth: int, *, longest: bool = False
) -> Rollout:
    """For each row, the rollout of 1..depth steps that is best by the estimate `choose` (or the longest), valued by `value`.

    Windows of 1, 2, 4, ... steps are joined pairwise, so the work is O(N log depth), and no power of gamma over more than one
    window is ever formed. Ties take the shortest rollout.
    """
    with np.errstate(invalid="ignore"):  # 0 * -inf is NaN, which is never chosen, just like -inf
        return _fold(reward, discount, last, choose, value, depth, longest)


def _fold(reward: Array, discount: Array, last: Array, choose: Array, value: Array, depth: int, longest: bool) -> Rollout:
    xp = choose.__array_namespace__()
    count = last.shape[-1]
    depth = min(depth, count)
    end = last | (xp.arange(count) == count - 1)
    # Padding after the last row lets each join look ahead by slicing, which drops the padding step by step.
    end, reward, discount, choose, value = (_padded(x, depth - 1) for x in (end, reward, discount, choose, value))
    length, along = xp.ones(choose.shape, dtype=xp.int32), xp.broadcast_to(reward, choose.shape)
    best = Rollout(reward + discount * choose, reward + discount * value, length, along)
    window, size = Window(xp.where(end, -np.inf, reward), discount), 1
    rest, steps = None, 0  # a window of the steps by which depth exceeds a power of two
    left = depth - (1 << depth.bit_length() - 1)
    while 2 * size <= depth:
        if left & size:
            rest, steps = window if rest is None else _follow(rest, window, steps), steps + size
        best = _join(best, window, size, best, longest)
        window, size = _follow(window, window, size), 2 * size
    if rest is not None:  # both halves may overlap, since the best of all rollouts is taken
        best = _join(best, rest, steps, best, longest)
    return Rollout(*(x[..., :count] for x in best))


def _padded(x: Array, rows: int) -> Array:
    """x with `rows` rows of zeros appended."""
    if rows == 0:
        return x
    xp = x.__array_namespace__()
    return xp.concatenate([x, xp.zeros((*x.shape[:-1], rows), dtype=x.dtype)], axis=-1)


def _join(first: Rollout, window: Window, size: int, then: Rollout, longest: bool) -> Rollout:
    """The better of `first` and of `size` steps followed by `then`, where the trajectory is long enough."""
    xp = first.own.__array_namespace__()
    count = min(first.own.shape[-1], then.own.shape[-1] - size)
    first, window = Rollout(*(x[..., :count] for x in first)), Window(*(x[..., :count] for x in window))
    then = Rollout(*(x[..., size : size + count] for x in then))
    own = window.reward + window.discount * then.own
    other = window.reward + window.discount * then.other
    take = window.reward > -np.inf if longest else own > first.own
    return Rollout(
        xp.where(take, own, first.own),
        xp.where(take, other, first.other),
        xp.where(take, size + then.length, first.length),
        xp.where(take, window.reward + window.discount * then.reward, first.reward),
    )


def _follow(first: Window, then: Window, size: int) -> Window:
    """The window `first`, of `size` steps, extended by `then`."""
    then = Window(*(x[..., size:] for x in then))
    first = Window(*(x[..., : then.reward.shape[-1]] for x in first))
    then = Window(*(x[..., : first.reward.shape[-1]] for x in then))
    return Window(first.reward + first.discount * then.reward, first.discount * then.discount)

"""Differentiable neural dictionaries (Pritzel et al., 2017), one for each action: keys, which are embedded states, and values.

The value of a state is the mean of the values of the k keys nearest to its embedding h, weighted by the kernel 1 / (|h - key|^2 +
delta). It can be differentiated by h, keys and values. Neighbours are found by one matrix product and measured exactly. An action
with fewer than k rows uses all of them, and one without rows has value 0.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gemrl.core.arrays import Array

NEVER = -1
"""When an empty row was used."""


class Neighbours(NamedTuple):
    """The nearest rows of queries in the dictionaries of some actions."""

    action: Array  # [*S, 1]
    row: Array  # [*S, k]
    filled: Array  # [*S, k] bool, False where a dictionary has fewer than k rows


class Written(NamedTuple):
    """Rows to be written."""

    action: Array  # [B]
    key: Array  # [B, D]
    digest: Array  # [B, 2], of the observation
    value: Array  # [B]
    valid: Array  # [B] bool, False where there is nothing to write


class Dictionary(eqx.Module):
    """The dictionaries of all actions, each with room for N rows."""

    key: Array  # [A, N, D]
    value: Array  # [A, N]
    norm: Array  # [A, N], the squared norms of the keys; infinite where a row is empty
    digest: Array  # [A, N, 2] unsigned, of the observations that the rows come from
    used: Array  # [A, N], when the row was last written or read in training; NEVER where it is empty
    neighbours: int = eqx.field(static=True)
    delta: float = eqx.field(static=True)

    @staticmethod
    def empty(actions: int, rows: int, width: int, neighbours: int, delta: float) -> Dictionary:
        """Dictionaries without rows, on the host."""
        shape, real = (actions, rows), np.float32
        return Dictionary(
            np.zeros((*shape, width), real),
            np.zeros(shape, real),
            np.full(shape, np.inf, real),
            np.zeros((*shape, 2), np.uint32),
            np.full(shape, NEVER, np.int32),
            neighbours,
            delta,
        )

    @property
    def sizes(self) -> Array:
        """The number of rows of each action [A]."""
        return (self.used != NEVER).sum(axis=-1)

    def nearest(self, queries: Array, action: Array | None = None) -> Neighbours:
        """The rows nearest to queries [B, D], of one action for each [B] -> [B, k], or of all actions -> [B, A, k]."""
        actions, rows, width = self.key.shape
        products = (self.key.reshape(-1, width) @ queries.T).T.reshape(-1, actions, rows)
        distances = self.norm - 2 * products  # the squared distances up to the queries' own norm, which changes no order
        if action is not None:
            distances = jnp.take_along_axis(distances, action[:, None, None], axis=1)[:, 0]
        closeness, row = jax.lax.top_k(-distances, self.neighbours)
        every = jnp.broadcast_to(jnp.arange(actions)[:, None], (*row.shape[:-1], 1)) if action is None else action[:, None]
        return Neighbours(every, row, jnp.isfinite(closeness))

    def values(self, queries: Array) -> tuple[Array, Neighbours]:
        """Q(s, .) of embedded states [B, D] -> [B, A], and the rows that it comes from."""
        near = self.nearest(queries)
        keys, values = self.key[near.action, near.row], self.value[near.action, near.row]
        return kernel_mean(queries[:, None], keys, values, near.filled, self.delta), near

    def touched(self, near: Neighbours, now: Array) -> Dictionary:
        """The dictionaries with these rows marked as used now."""
        row = jnp.where(near.filled, near.row, self.used.shape[-1])  # a row that does not exist is dropped
        return eqx.tree_at(lambda d: d.used, self, self.used.at[near.action, row].set(now, mode="drop"))

    def moved(self, near: Neighbours, keys: Array, values: Array) -> Dictionary:
        """The dictionaries with these changes added to the keys [*S, k, D] and values [*S, k] of rows."""
        at = near.action, near.row
        key = self.key.at[at].add(jnp.where(near.filled[..., None], keys, 0))
        value = self.value.at[at].add(jnp.where(near.filled, values, 0))
        norm = self.norm.at[at].set(jnp.where(near.filled, (key[at] ** 2).sum(axis=-1), jnp.inf))
        return eqx.tree_at(lambda d: (d.key, d.value, d.norm), self, (key, value, norm))

    def written(self, rows: Written, rate: Array | float, now: Array) -> Dictionary:
        """The dictionaries after writing rows in order: a known state moves its value by `rate`, a new one takes a row.

        Two states are the same if their digests are. In a full dictionary a new state takes the least recently used row. The
        key of a known state becomes its present embedding.
        """

        def write(number: Array, to: Dictionary) -> Dictionary:
            action, key, digest, value, valid = (column[number] for column in rows)
            same = (to.digest[action] == digest).all(axis=-1) & (to.used[action] != NEVER)
            known = same.any()
            row = jnp.where(known, same.argmax(), to.used[action].argmin())  # empty rows come first
            before = to.value[action, row]
            after = jnp.where(known, before + rate * (value - before), value)
            at = jnp.where(valid, action, len(to.key)), row
            changes = {"key": key, "value": after, "norm": (key**2).sum(), "digest": digest, "used": now}
            columns = [getattr(to, name).at[at].set(change, mode="drop") for name, change in changes.items()]
            return eqx.tree_at(lambda d: [getattr(d, name) for name in changes], to, columns)

        return jax.lax.fori_loop(0, len(rows.valid), write, self)


def kernel_mean(queries: Array, keys: Array, values: Array, filled: Array, delta: Array | float) -> Array:
    """sum_i w_i v_i, w_i = k_i / sum_j k_j, k_i = 1 / (|h - h_i|^2 + delta). [*S, D], [*S, k, D], [*S, k], [*S, k] -> [*S]."""
    distances = ((queries[..., None, :] - keys) ** 2).sum(axis=-1)
    kernel = jnp.where(filled, 1 / (distances + delta), 0)
    total = kernel.sum(axis=-1)
    return (kernel * values).sum(axis=-1) / jnp.where(total > 0, total, 1)

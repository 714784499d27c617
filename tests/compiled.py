"""The parts of a round, each as one compiled program: operation by operation, tests would spend their time in the compiler."""

from __future__ import annotations

import jax

from gemrl.agents import continuous, discrete, values
from gemrl.agents.memory import refresh as refreshing
from gemrl.agents.memory import ring, sampling

insert = jax.jit(ring.insert)
cut = jax.jit(ring.cut)
plan = jax.jit(refreshing.plan, static_argnums=1)
draw = jax.jit(sampling.draw, static_argnums=2, static_argnames="planned")

chance = jax.jit(values.chance, static_argnums=0)
bounds = jax.jit(values.bounds, static_argnums=0)
fresh_returns = jax.jit(values.fresh_returns, static_argnums=0)
group_values = jax.jit(values.group_values, static_argnums=0)
refresh = jax.jit(continuous.refresh, static_argnums=0)

discrete_refresh = jax.jit(discrete.refresh, static_argnums=0)
discrete_batch_of = jax.jit(discrete.batch_of, static_argnums=0)
discrete_update = jax.jit(discrete.update_memory, static_argnums=(0, 3))

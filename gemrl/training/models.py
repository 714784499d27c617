"""One model class per algorithm. They share one implementation and differ in the recipe they name."""

from __future__ import annotations

from gemrl.algorithms.registry import RECIPES, recipe
from gemrl.training.model import Model


class GEM(Model):
    """Generalizable Episodic Memory (Hu et al., ICML 2021)."""

    algo = "gem"


class GEM2(Model):
    """GEM with what later methods have shown to help: a recipe of our own, beyond the paper."""

    algo = "gem2"


class TD3(Model):
    """Twin delayed DDPG (Fujimoto et al., 2018)."""

    algo = "td3"


class DDPG(Model):
    """Deep deterministic policy gradient (Lillicrap et al., 2016), as td3 with one critic, no smoothing and no delay."""

    algo = "ddpg"


class SAC(Model):
    """Soft actor-critic (Haarnoja et al., 2018) with automatic temperature."""

    algo = "sac"


class REDQ(Model):
    """Randomised ensembled double Q-learning (Chen et al., 2021) at GEM's update ratio."""

    algo = "redq"


class EMAC(Model):
    """Episodic memory actor-critic (Kuznetsov and Filchenkov, 2021)."""

    algo = "emac"


class DQN(Model):
    """Deep Q-network (Mnih et al., 2015), for discrete actions; MODELS contains its variants."""

    algo = "dqn"


class MFEC(Model):
    """Model-free episodic control (Blundell et al., 2016), for discrete actions."""

    algo = "mfec"


class NEC(Model):
    """Neural episodic control (Pritzel et al., 2017), for discrete actions."""

    algo = "nec"


MODELS: dict[str, type[Model]] = {model.algo: model for model in (GEM, GEM2, TD3, DDPG, SAC, REDQ, EMAC, DQN, MFEC, NEC)}
"""The model class of each algorithm."""


def model_class(algo: str) -> type[Model]:
    """The model class of an algorithm; made on first use for algorithms without a named one."""
    recipe(algo)
    if algo not in MODELS:
        MODELS[algo] = type(algo.replace("-", "_"), (Model,), {"algo": algo, "__doc__": algo, "__module__": __name__})
    return MODELS[algo]


for _algo in RECIPES:
    model_class(_algo)

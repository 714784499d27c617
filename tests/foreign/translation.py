"""gemrl's classes with the constructor of Stable-Baselines3, so that its tests can make them.

Only what docs/python.md lists under another name is translated. Whatever gemrl does not have is refused, here or by gemrl.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import stable_baselines3
import torch
from stable_baselines3.common.noise import NormalActionNoise

import gemrl

NAMES = ("TD3", "SAC", "DDPG", "DQN")
"""The classes that are swapped."""

SCHEDULE = ("learning_starts", "train_freq", "gradient_steps", "target_update_interval", "batch_size")
"""Arguments whose default is Stable-Baselines3's here: its tests train for a few hundred steps and expect updates in them."""


def translated(given: Mapping[str, Any], original: type, *, new: bool = True) -> dict[str, Any]:
    """The arguments of gemrl that stand for those of Stable-Baselines3; with its own schedule if the model is new."""
    parameters = inspect.signature(original).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items()}
    fields = {name: defaults[name] for name in SCHEDULE if new and name in defaults}
    fields |= {name: value for name, value in given.items() if name in SCHEDULE or value is not defaults.get(name, fields)}
    policy = dict(fields.pop("policy_kwargs", None) or {})
    for name in ("net_arch", "n_critics"):
        if name in policy:
            fields[name] = policy.pop(name)
    if (policy.get("features_extractor_kwargs") or {}).keys() == {"features_dim"}:
        del policy["features_extractor_kwargs"]  # only makes PyTorch's convolutions smaller
    if policy:
        raise NotImplementedError(f"policy_kwargs {', '.join(policy)}")
    if "n_steps" in fields:
        fields["depth"] = fields.pop("n_steps")
    freq = fields.get("train_freq")
    if isinstance(freq, tuple) and freq[1:] == ("step",):
        fields["train_freq"] = freq[0]
    return fields | _noise(fields.pop("action_noise", None), original)


def _noise(noise: Any, original: type) -> dict[str, Any]:
    """The exploration noise of an action_noise; sac has none of its own."""
    if noise is None:
        return {}
    if not isinstance(noise, NormalActionNoise) or noise._mu.any():
        raise NotImplementedError(f"action_noise {noise}")
    if original is ORIGINALS["SAC"] and not noise._sigma.any():
        return {}
    return {"exploration_noise": float(noise._sigma.flat[0])}


def _swapped(name: str) -> type[gemrl.Model]:
    """gemrl's class of this name with the constructor of Stable-Baselines3's."""
    ours, original = getattr(gemrl, name), getattr(stable_baselines3, name)

    class Swapped(ours):  # type: ignore[misc, valid-type]
        policy = SimpleNamespace(device=torch.device("cpu"))  # so that tests of something else can go on
        """The only attribute of a policy of PyTorch that stands for something here."""

        def __init__(self, policy: Any, env: Any = None, **given: Any) -> None:
            super().__init__(policy, env, **translated(given, original))

        @classmethod
        def load(cls, path: Any, env: Any = None, device: str = "auto", **given: Any) -> Any:
            return super().load(path, env, device, **translated(given, original, new=False))

    Swapped.__name__ = Swapped.__qualname__ = name
    return Swapped


ORIGINALS: dict[str, type] = {name: getattr(stable_baselines3, name) for name in NAMES}
"""The classes of Stable-Baselines3."""

SWAPPED: dict[str, type] = {name: _swapped(name) for name in NAMES}
"""Our classes that take their place."""

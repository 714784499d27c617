"""Callbacks: gemrl's own, plain functions and those of Stable-Baselines3, all called by one runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gemrl.core.exceptions import BadValue
from gemrl.training.loop import Event

if TYPE_CHECKING:
    from gemrl.training.model import Model


class Callback:
    """Base class of callbacks. Override the methods you need; returning False stops the training."""

    def on_step(self, model: Model, event: Event) -> bool | None:
        """Called after every step of the environments or, in `learn_offline`, after every round."""
        return None

    def on_evaluation(self, model: Model, event: Event) -> bool | None:
        """Called after every evaluation; its result is `event.evaluation`."""
        return None


AnyCallback = Any
"""A gemrl.Callback, a function of (locals, globals), a Stable-Baselines3 callback, or a list of these."""


class CallbackRunner:
    """Calls all callbacks of one call of `learn`."""

    def __init__(self, model: Model, callback: AnyCallback | None, total_timesteps: int) -> None:
        self._model = model
        listed = list(callback) if isinstance(callback, (list, tuple)) else [] if callback is None else [callback]
        self._sb3 = [one for one in listed if hasattr(one, "init_callback")]
        self._own = [one for one in listed if isinstance(one, Callback)]
        self._functions = [one for one in listed if one not in self._sb3 and one not in self._own]
        for one in listed:
            if isinstance(one, type):
                raise BadValue(f"a callback must be an instance, but {one.__name__} is a class: pass {one.__name__}(...)")
        for one in self._functions:
            if not callable(one):
                raise BadValue(f"a callback must be a gemrl.Callback, a Stable-Baselines3 callback or a function, not {one!r}")
        self._locals: dict[str, Any] = {"self": model, "total_timesteps": total_timesteps, "callback": callback}

    def start(self) -> None:
        """Called before the first step."""
        for one in self._sb3:
            one.init_callback(self._model)
            one.on_training_start(self._locals, globals())
            one.on_rollout_start()

    def on_event(self, event: Event) -> bool:
        """Passes the event of a step or round to all callbacks; returns False if one of them stops the training."""
        self._locals["event"] = event
        if step := event.taken:
            self._locals |= {
                "new_obs": step.observation,
                "rewards": step.transition.reward,
                "dones": step.transition.terminated | step.transition.truncated,
                "infos": step.infos,
            }
        results = [one.on_step(self._model, event) for one in self._own]
        if event.evaluation:
            results += [one.on_evaluation(self._model, event) for one in self._own]
        results += [function(self._locals, globals()) for function in self._functions]
        for one in self._sb3:
            one.update_locals(self._locals)
            results.append(one.on_step())
        if event.rounds:
            for one in self._sb3:
                one.on_rollout_end()
                one.on_rollout_start()
        return all(result is None or bool(result) for result in results)

    def end(self) -> None:
        """Called after the last step."""
        for one in self._sb3:
            one.on_rollout_end()
            one.on_training_end()

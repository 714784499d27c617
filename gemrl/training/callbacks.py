"""Callbacks: our own small protocol, plain functions, and the ones of Stable-Baselines3, all behind one face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gemrl.core.exceptions import BadValue
from gemrl.training.loop import Event

if TYPE_CHECKING:
    from gemrl.training.model import Model


class Callback:
    """Watches a training. Override what you need; False ends the training."""

    def on_step(self, model: Model, event: Event) -> bool | None:
        """After every step of the environments."""
        return None

    def on_evaluation(self, model: Model, event: Event) -> bool | None:
        """After every evaluation, which is `event.evaluation`."""
        return None


AnyCallback = Any
"""Ours, a function of (locals, globals), a callback of Stable-Baselines3, or a list of these."""


class CallbackRunner:
    """All callbacks of one training."""

    def __init__(self, model: Model, callback: AnyCallback | None, total_timesteps: int) -> None:
        self._model = model
        listed = list(callback) if isinstance(callback, (list, tuple)) else [] if callback is None else [callback]
        self._theirs = [one for one in listed if hasattr(one, "init_callback")]
        self._ours = [one for one in listed if isinstance(one, Callback)]
        self._functions = [one for one in listed if one not in self._theirs and one not in self._ours]
        for one in listed:
            if isinstance(one, type):
                raise BadValue(f"a callback must be an object, and {one.__name__} is a class: {one.__name__}(...) makes one")
        for one in self._functions:
            if not callable(one):
                raise BadValue(f"a callback must be a gemrl.Callback, one of Stable-Baselines3's or a function, not {one!r}")
        self._locals: dict[str, Any] = {"self": model, "total_timesteps": total_timesteps, "callback": callback}

    def start(self) -> None:
        """Before the first step."""
        for one in self._theirs:
            one.init_callback(self._model)
            one.on_training_start(self._locals, globals())
            one.on_rollout_start()

    def on_event(self, event: Event) -> bool:
        """Tells everyone what happened; False if one of them wants to stop."""
        if event.taken is None:
            return True
        step = event.taken
        self._locals |= {
            "event": event,
            "new_obs": step.observation,
            "rewards": step.transition.reward,
            "dones": step.transition.terminated | step.transition.truncated,
            "infos": step.infos,
        }
        answers = [one.on_step(self._model, event) for one in self._ours]
        if event.evaluation:
            answers += [one.on_evaluation(self._model, event) for one in self._ours]
        answers += [function(self._locals, globals()) for function in self._functions]
        for one in self._theirs:
            one.update_locals(self._locals)
            answers.append(one.on_step())
        if event.rounds:
            for one in self._theirs:
                one.on_rollout_end()
                one.on_rollout_start()
        return all(answer is None or bool(answer) for answer in answers)

    def end(self) -> None:
        """After the last step."""
        for one in self._theirs:
            one.on_rollout_end()
            one.on_training_end()

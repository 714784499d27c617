"""The executors by name. To add one, write a class like Local and list it here."""

from __future__ import annotations

from collections.abc import Callable

from gemrl.experiments.executors.base import Executor, ExecutorOptions
from gemrl.experiments.executors.local import Local
from gemrl.experiments.executors.ray import Ray

EXECUTORS: dict[str, Callable[[ExecutorOptions], Executor]] = {"local": Local.of, "ray": Ray.of}
"""What `gemrl study --executor NAME` creates from its options."""

"""The schema of model.json."""

from __future__ import annotations

from gemrl.core.reading import MODEL_BYTES
from gemrl.core.schema import DIGEST, MAX_SEED, AnyText, FileKind, Flag, Items, Kind, Maybe, Real, Record, Text, Whole
from gemrl.envs.vector import MAX_LANES

_GAME = Record(
    {"noops": Record()},
    {"lives": Whole(), "game_over": Flag(), "last_action": Maybe(Whole(high=1 << 31)), "elapsed": Items(Whole(), 100)},
)

_COUNTERS: dict[str, Kind] = {
    "episodes": Whole(),
    "steps": Whole(),
    "total": Real(finite=False),
    "game": _GAME,
    "resets": Whole(),
}
"""What environments count: those that can be replayed, Atari games, and vector environments."""

_TASK = Record(optional=_COUNTERS, others=Record(optional=_COUNTERS))
"""The counters of one environment, or by lane those of several."""

_LEARNING = Record(
    optional={
        "agent": Record(
            optional={
                "noise": Record(),
                "draws": Record(),
                "updated": Maybe(Whole()),
                "keeps_data": Flag(),
                "losses": Record(others=Real(finite=False)),
            }
        ),
        "memory": Record(optional={"filled": Whole(), "images": Whole()}),
        "staging": Record(),
        "noise": Record(),
    }
)

_STATE = Record(
    optional={"model": Record({"predictions": Record()}, {"task": Text(100)}), "task": _TASK, "learning": _LEARNING},
)

MODEL_FILE = FileKind(
    "model.json",
    Record(
        {
            "algo": Text(200),
            "recipe": Record(),
            "seed": Whole(0, MAX_SEED),
            "num_timesteps": Whole(),
            "n_envs": Whole(1, MAX_LANES),
            "observation_space": Record(),
            "action_space": Record(),
            "sha256": Record({"learner": DIGEST, "memory": Maybe(DIGEST)}),
            "state": _STATE,
        },
        {"format": Whole(), "gemrl": AnyText(100), "frames": Whole(1, 10_000)},
    ),
    MODEL_BYTES,
)
"""The header of a saved model. Its spaces, recipe and random states are checked by those who read them."""

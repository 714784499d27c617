"""The schemas of run.json, study.json, tune.json, trials.json, and the JSON files of checkpoints and of finished runs."""

from __future__ import annotations

from gemrl.core.schema import (
    DIGEST,
    MAX_SEED,
    AnyText,
    FileKind,
    Flag,
    Items,
    Kind,
    Maybe,
    Nothing,
    Pair,
    Real,
    Record,
    Text,
    Whole,
)
from gemrl.core.validation import MAX_ENVS, MAX_THREADS
from gemrl.envs.arguments import RESERVED

COUNT = Whole(1)

TRACK = Record({"to": Text(100), "id": Text(32, r"[0-9a-zA-Z_-]+", "letters and digits")})

ARGUMENTS = Record(names=Text(100, rf"(?!(?:{'|'.join(RESERVED)})$)[^\W\d]\w*", "an argument of the environment"))
"""The keyword arguments of an environment, without those that gemrl sets itself."""

RESUMED: dict[str, Kind] = {
    "steps": COUNT,
    "eval_every": COUNT,
    "eval_episodes": COUNT,
    "n_envs": Whole(1, MAX_ENVS),
    "checkpoint_every": Maybe(COUNT),
    "tensorboard": Flag(),
    "device": Text(10, "auto|cpu|gpu", "auto, cpu or gpu"),
    "recipe": Record(),
    "versions": Record(others=AnyText()),
}
"""What `gemrl resume` needs of a run.json; a report does without."""

DATA = Record({"path": Text(4096), "sha256": DIGEST, "trajectories": COUNT, "rows": COUNT})
"""Recorded trajectories that were in the memory from the start; the digest is that of the trajectories, not of the file."""

RUN_FILE = FileKind(
    "run.json",
    Record(
        {"algo": Text(200), "env": Text(), "seed": Whole(0, MAX_SEED)},
        {
            **RESUMED,
            "env_args": ARGUMENTS,
            "env_timeout": COUNT,
            "track": Maybe(TRACK),
            "threads": Whole(1, MAX_THREADS),
            "xla_flags": AnyText(10_000),
            "data": Items(DATA, 10_000),
            "keep_data": Flag(),
            "offline": Flag(),
            "keep_best": Flag(),
        },
    ),
)
"""The description of a run. Older runs lack some of the fields."""

_TEXTS = Items(Text(), 10_000)
_ENTRY = Record(optional={"algo": Text(200), "settings": _TEXTS})

STUDY_FILE = FileKind(
    "study.json",
    Record(
        {"name": Text(200), "title": Text(), "algos": Record(others=_ENTRY), "envs": _TEXTS},
        {
            "format": Whole(1, 1),
            "seeds": Items(Whole(0, MAX_SEED), 100_000),
            "steps": COUNT,
            "eval_every": COUNT,
            "eval_episodes": COUNT,
            "settings": _TEXTS,
            "env_args": _TEXTS,
            "keep": Text(20),
            "recipes": Record(others=Record(others=Record())),
            "versions": Record(others=AnyText()),
        },
    ),
)
"""The description of a study."""

TUNE_FILE = FileKind(
    "tune.json",
    Record(
        {
            "format": Whole(1, 1),
            "study_name": Text(),
            "storage": Text(),
            "owner": Text(32, "[0-9a-f]+", "letters and digits"),
            "trials": COUNT,
            "algo": Text(200),
            "env": Text(),
            "env_args": ARGUMENTS,
            "settings": _TEXTS,
            "steps": COUNT,
            "eval_every": COUNT,
            "eval_episodes": COUNT,
            "seeds": Items(Whole(0, MAX_SEED), 1000),
            "sampler": Text(20),
            "pruner": Text(20),
            "space": Record(
                others=Record(optional={"low": Real(), "high": Real(), "log": Flag(), "choices": Items(Text(), 1000)})
            ),
            "versions": Record(others=AnyText()),
        }
    ),
)
"""The description of a hyperparameter search."""

_TRIAL = Record(
    {
        "number": Whole(),
        "state": Text(10, "running|complete|pruned|failed", "running, complete, pruned or failed"),
        "score": Maybe(Real()),
        "settings": Record(others=Text()),
        "step": Whole(),
        "reason": AnyText(2000),
    },
    others=Nothing(),
)

TRIALS_FILE = FileKind(
    "trials.json",
    Record({"format": Whole(1, 1), "trials": Items(_TRIAL, 100_000), "importance": Record(others=Real())}),
    limit=64 << 20,
)
"""The trials of a search."""

_PROGRESS = Record(
    {
        "elapsed": Real(),
        "finished": Items(Pair(Real(finite=False), Whole()), 100),
        "losses": Record(others=Real(finite=False)),
        "rounds": Whole(),
        "episodes": Whole(),
    }
)

STATE_FILE = FileKind(
    "state.json",
    Record(
        {
            "sha256": Record({"model.json": DIGEST, "evaluations.csv": DIGEST, "progress.csv": DIGEST}, others=DIGEST),
            "facts": Record(
                {"recorder": Record({"next": Whole(), "progress": _PROGRESS})},
                {"env": Text(), "env_args": ARGUMENTS, "best": Real()},
            ),
        }
    ),
)
"""The state of a run in a checkpoint."""

FINISHED_FILE = FileKind("finished.json", Record({"steps": COUNT, "sha256": Record(others=DIGEST)}))
"""The seal of results whose model was removed."""

"""Models on the Hugging Face Hub: pushes the results and the model of a run, and fetches them again. Nothing is unpickled."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gemrl.algorithms.registry import recipe
from gemrl.core.exceptions import BadValue, HubError, MissingExtra
from gemrl.core.reading import exists, open_regular
from gemrl.core.version import __version__
from gemrl.experiments.run_folder import as_json, describe, finished, recipe_fields
from gemrl.experiments.run_logs import read_evaluations

PREFIX = "hf:"
"""What the name of a model on the Hub begins with, in place of a path."""
NEEDED = ("run.json", "model.json", "model.safetensors")
FILES = (*NEEDED, "evaluations.csv", "progress.csv", "learning_curve.png")
"""The files of a run that are pushed, if it has them."""


def _hub() -> Any:
    """The package that talks to the Hub."""
    try:
        import huggingface_hub
    except ImportError:
        raise MissingExtra("models on the Hugging Face Hub need a package: pip install 'gemrl[hub]'") from None
    return huggingface_hub


def checked_name(name: str) -> str:
    """A repository's name, `user/name`. Raises if it is none."""
    user, slash, rest = name.partition("/")
    if not (user and slash and rest) or "/" in rest or any(character.isspace() for character in name):
        raise BadValue(f"a model on the Hub is called user/name, not {name!r}")
    return name


def fetch(name: str) -> Path:
    """The run folder of a model on the Hub, `hf:user/name` or `hf:user/name@revision`: downloaded, or from its cache."""
    repository, _, revision = name.removeprefix(PREFIX).partition("@")
    hub = _hub()
    with _hub_errors(checked_name(repository)):
        folder = hub.snapshot_download(repository, revision=revision or None, allow_patterns=list(FILES))
    return Path(folder)


def write_folder(run: Path, folder: Path, repository: str) -> None:
    """Copies what is pushed of a run to a folder, with a model card."""
    description = describe(run)
    missing = [name for name in NEEDED if not exists(run / name)]
    if missing:
        raise BadValue(f"{run} cannot be pushed: it has no {missing[0]}")
    evaluations = read_evaluations(run)
    if not finished(run, description["steps"]) or not len(evaluations["step"]):
        raise BadValue(f"{run} cannot be pushed: it is not finished; continue it with gemrl resume")
    if folder.exists() and any(folder.iterdir()):
        raise BadValue(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        if exists(run / name):
            with open_regular(run / name, None, links=False) as file:  # a link may lead to what nobody wants to publish
                (folder / name).write_bytes(file.read())
    (folder / "README.md").write_text(model_card(description, evaluations, repository), encoding="utf-8")


def push(folder: Path, repository: str, *, private: bool) -> str:
    """Uploads a folder that `write_folder` wrote; returns the address of the model."""
    hub = _hub()
    with _hub_errors(repository):
        api = hub.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        message = f"Push a model of gemrl {__version__}"
        api.upload_folder(
            repo_id=repository, folder_path=str(folder), commit_message=message, allow_patterns=["README.md", *FILES]
        )
        return f"{api.endpoint}/{repository}"


@contextmanager
def _hub_errors(repository: str) -> Iterator[None]:
    """Turns errors of the Hub into one line."""
    try:
        yield
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise HubError(f"the Hugging Face Hub and {repository!r}: {reason}") from error


def _options(description: dict[str, Any]) -> list[str]:
    """The options of a run's command that differ from the defaults."""
    options = ["--n-envs", str(description["n_envs"])] if description.get("n_envs", 1) != 1 else []
    if arguments := description.get("env_args"):
        options += ["--env-args", *(f"{name}={value!r}" for name, value in arguments.items())]
    own, usual = recipe_fields(description), as_json(recipe(description["algo"]))
    settings = [f"{name}={value}" for name, value in own.items() if value != usual.get(name)]
    return [*options, *(["--set", *settings] if settings else [])]


def model_card(description: dict[str, Any], evaluations: dict[str, Any], repository: str) -> str:
    """The README of a model on the Hub: what it is, how it did, how to use it and how to train it again."""
    algo, env, seed, steps = (description[name] for name in ("algo", "env", "seed", "steps"))
    mean, std = (float(evaluations[name][-1]) for name in ("return_mean", "return_std"))
    rows = "\n".join(
        f"| {int(step):,} | {value:,.1f} |" for step, value in zip(evaluations["step"], evaluations["return_mean"], strict=True)
    )
    command = shlex.join(
        ["gemrl", "train", env, "--algo", algo, "--steps", str(steps), "--seed", str(seed), *_options(description)]
    )
    return f"""---
library_name: gemrl
pipeline_tag: reinforcement-learning
tags: [reinforcement-learning, deep-reinforcement-learning, episodic-memory, {json.dumps(algo)}, {json.dumps(env)}]
model-index:
- name: {json.dumps(algo)}
  results:
  - task: {{type: reinforcement-learning, name: reinforcement-learning}}
    dataset: {{name: {json.dumps(env)}, type: {json.dumps(env)}}}
    metrics:
    - {{type: mean_reward, value: "{mean:.2f} +/- {std:.2f}", name: mean_reward, verified: false}}
---

# {algo} on {env}

Trained with gemrl for {steps:,} environment steps, seed {seed}. The last evaluation has a mean return of
{mean:,.1f} ± {std:,.1f} (standard deviation over episodes). This is one run; another seed may give another return.

![learning curve](learning_curve.png)

```python
import gemrl

model = gemrl.load("{PREFIX}{repository}")
action, _ = model.predict(observation, deterministic=True)
```

Trained with `{command}`. `run.json` has every field of the recipe and all versions.

| step | mean return |
|---|---|
{rows}
"""

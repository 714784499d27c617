"""The examples of docs/extending.md: each is run as it is printed, and does what its section says."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gemrl
from gemrl.agents.describing import BODIES
from gemrl.agents.making import AGENTS
from gemrl.agents.networks.bodies import NETWORKS
from gemrl.algorithms.parts import PARTS
from gemrl.algorithms.registry import ALGORITHMS, RECIPES
from gemrl.algorithms.search_spaces import SPACES
from gemrl.experiments.executors.registry import EXECUTORS
from gemrl.experiments.run_folder import finished
from gemrl.experiments.studies.catalog import STUDIES
from gemrl.training.models import MODELS
from gemrl.training.trackers import TRACKERS

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
REGISTRIES: tuple[dict[Any, Any], ...] = (
    PARTS,
    NETWORKS,
    BODIES,
    AGENTS,
    ALGORITHMS,
    RECIPES,
    EXECUTORS,
    STUDIES,
    TRACKERS,
    MODELS,
)


def examples() -> dict[str, str]:
    """The Python of each section, by its heading."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    block = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return {text.partition("\n")[0]: "\n".join(block.findall(text)) for text in sections}


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder to work in, and registries that are as they were when the test ends."""
    monkeypatch.chdir(tmp_path)
    before = [dict(registry) for registry in REGISTRIES]
    yield
    for registry, entries in zip(REGISTRIES, before, strict=True):
        registry.clear()
        registry.update(entries)


def run(section: str) -> dict[str, Any]:
    """What an example defines."""
    names: dict[str, Any] = {"__name__": f"example of {section}"}
    exec(compile(examples()[section], f"docs/extending.md, {section}", "exec", dont_inherit=True), names)
    return names


def test_every_section_has_an_example_that_is_tested_here() -> None:
    tested = set(re.findall(r"run\(\"([^\"]+)\"\)", Path(__file__).read_text()))
    assert set(examples()) == tested
    assert all(examples().values())


def trained(model: gemrl.Model, steps: int = 200) -> None:
    """The model learned, and is the same after it was saved and loaded."""
    assert model.num_timesteps == steps
    assert model._n_updates > 0
    model.save("saved")
    again = gemrl.load("saved")
    assert again.recipe == model.recipe
    observation = np.ones((3, 3), np.float32)
    ours, theirs = (one.predict(observation, deterministic=True)[0] for one in (again, model))
    np.testing.assert_array_equal(ours, theirs)


def test_a_planner() -> None:
    found = run("A planner")
    reward, discount, last = np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.array([False, True])
    q_next = np.array([[0.0, 8.0]])  # V[0, 1] = 1, V[0, 2] = 1 + 0.5 * 4 = 3
    np.testing.assert_allclose(found["Cautious"](trust=0.25)(reward, discount, last, q_next), [[1.5, 4.0]])
    trained(found["model"])
    spelled = gemrl.RECIPES["gem"].but_from_text([("planner", "Cautious(trust=0.8)")])
    assert spelled.settable()["planner"] == found["Cautious"](trust=0.8)


def test_a_loss() -> None:
    found = run("A loss")
    delta = np.array([-3.0, 0.0, 0.5])
    np.testing.assert_allclose(found["LogCosh"]()(delta), np.log(2 * np.cosh(delta)), rtol=1e-6)
    trained(found["model"])


def test_a_network_body() -> None:
    """Statistics move in training, in every network, and are saved; a plain call leaves them alone."""
    found = run("A network body")
    model = found["model"]
    arrays = model.get_parameters()
    means = [(name.split(".")[0], array) for name, array in arrays.items() if name.endswith(".mean")]
    moved = {owner for owner, mean in means if np.abs(mean).max() > 0}
    assert moved == {"actor", "critics", "target_actor", "target_critics"}  # and no moment of an optimizer
    assert Path("policy", "policy.onnx").exists()  # exporting it compared its actions with the model's
    trained(model, 300)
    for name, array in gemrl.load("saved").get_parameters().items():
        np.testing.assert_array_equal(array, arrays[name])


def test_an_ablation() -> None:
    found = run("An ablation")
    assert found["changed"] == {"policy_delay": (2, 1)}
    trained(found["model"])


def test_an_agent_family() -> None:
    model = run("An agent family")["model"]
    assert (model.num_timesteps, model.algo) == (1000, "climbing")
    assert np.isfinite(model.agent.learner.score)
    model.save("saved", memory=True)
    again = gemrl.load("saved", env="Pendulum-v1")
    np.testing.assert_array_equal(again.agent.learner.best, model.agent.learner.best)


def test_a_logger() -> None:
    run("A logger")
    lines = [json.loads(line) for line in Path("metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [200, 400, 600, 800, 1000]
    assert all("rollout/ep_rew_mean" in line for line in lines)


def test_the_same_logger_on_the_command_line() -> None:
    """Both front doors send the same metrics to the same class."""
    code = examples()["A logger"].partition("model = ")[0]
    exec(compile(code, "docs/extending.md", "exec", dont_inherit=True), {"__name__": "example"})
    from gemrl.cli.main import main

    words = ["train", "FrozenLake-v1", "--algo", "q-learning", "--steps", "1000", "--eval-every", "500", "--run", "run"]
    assert main([*words, "--track", "jsonl"]) == 0
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    with Path("run/progress.csv").open() as file:
        rows = [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]
    assert [{name: value for name, value in line.items() if name != "step"} for line in lines] == rows


def test_a_study(capsys: pytest.CaptureFixture[str]) -> None:
    run("A study")
    assert "3 recipes x 1 environment x 1 seed, 500 steps" in capsys.readouterr().out


def test_a_search_space(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(SPACES)
    try:
        run("A search space")
    finally:
        SPACES[:] = before
    assert "searched (tpe, median pruner): first, power\n" in capsys.readouterr().out


def test_an_executor() -> None:
    found = run("An executor")
    assert found["code"] == 0
    assert finished(Path("studies/lake/q-learning/FrozenLake-v1/0"), 300)

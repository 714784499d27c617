"""Exported policies: every family in every format acts like the model, without gemrl, and wrong use ends in one line."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import gemrl
from gemrl.agents import describing
from gemrl.agents.networks.bodies import NETWORKS
from gemrl.agents.networks.body_network import BodyNetwork
from gemrl.agents.networks.perceptron import Layer
from gemrl.algorithms.activations import ELU, Tanh
from gemrl.algorithms.bodies import Body, Perceptron, Residual
from gemrl.algorithms.embeddings import NoEmbedding, StateAction
from gemrl.algorithms.registry import RECIPES
from gemrl.cli.main import main
from gemrl.core.arrays import Array
from gemrl.core.exceptions import BadValue, MissingExtra, ModelFileError, RunFolderError
from gemrl.core.policy_graph import GraphBuilder
from gemrl.envs.spaces import Spaces
from gemrl.training.export.exporting import random_observations
from gemrl.training.export.formats import FORMATS
from gemrl.training.models import model_class
from tests.conftest import SMALL

COUNT = 1000
"""Observations on which actions are compared."""


class Case(NamedTuple):
    """An algorithm with its spaces, and the fields of a small model."""

    algo: str
    observation: Box | Discrete
    action: Box | Discrete
    fields: dict[str, Any]
    frames: int = 1


def vector(size: int, dtype: Any = np.float32) -> Box:
    return Box(-np.inf, np.inf, (size,), dtype)


def boxed(low: float, high: float, shape: tuple[int, ...], dtype: Any) -> Box:
    return Box(low, high, shape, dtype)


UNIT, THREE = Box(-1, 1, (2,)), Discrete(3)
UNEVEN = Box(np.array([[-3, 0.5], [10, -200]], np.float32), np.array([[5, 0.75], [90, 100]], np.float32))
NET: dict[str, Any] = {"net_arch": (16, 12)}
SIX = {"net_arch": (6,)}
KEYS: dict[str, Any] = SIX | {"key_size": 4, "k": 3}
BITS, ATARI = boxed(0, 1, (10, 10, 4), np.bool_), Box(0, 255, (4, 36, 36), np.uint8)

CASES = {
    "gem": Case("gem", vector(5), UNIT, NET),
    "linear": Case("gem", vector(5), UNIT, {"net_arch": ()}),
    "no LayerNorm": Case("td3", vector(5), UNIT, NET | {"layer_norm": False}),
    "LayerNorm first, action twice": Case("gem-released", vector(5), UNIT, NET),
    "Tanh": Case("td3", vector(5), UNIT, NET | {"activation": Tanh()}),
    "ELU after LayerNorm": Case("gem-released", vector(5), UNIT, NET | {"activation": ELU()}),
    "normalized": Case("gem", vector(5, np.float64), UNIT, NET | {"normalize_observations": True}),
    "residual": Case("gem", vector(5), UNIT, {"body": Residual(8, 2)}),
    "embedding": Case("gem", vector(5), UNIT, NET | {"embedding": StateAction(7), "normalize_observations": True}),
    "gem2": Case("gem2", vector(5), UNIT, NET | {"features": 7}),
    "sac": Case("sac", vector(5), UNIT, NET),
    "crossq": Case("crossq-512", vector(5), UNIT, NET),
    "sac, residual, normalized": Case("sac", vector(5), UNEVEN, {"body": Residual(8, 1), "normalize_observations": True}),
    "gem, images": Case("gem", Box(0, 255, (40, 36, 3), np.uint8), UNIT, NET),
    "sac, images of bits": Case("sac", boxed(0, 1, (4, 10, 10), np.bool_), UNIT, NET),
    "gem2, stacks": Case("gem2", Box(0, 255, (3, 36, 40), np.uint8), UNIT, NET | {"embedding": NoEmbedding()}, frames=3),
    "td3, stacks of colours": Case("td3", Box(0, 255, (2, 3, 9, 9), np.uint8), UNEVEN, NET, frames=2),
    "bounds": Case("gem", vector(5), UNEVEN, NET),
    "float64 actions": Case("gem", vector(5), Box(-2, 3, (2,), np.float64), NET),
    "whole actions": Case("gem", vector(5), Box(-7, 20, (3,), np.int32), NET),
    "actions of shape ()": Case("gem", vector(5), Box(-2, 3, (), np.float32), NET),
    "bytes as a vector": Case("gem", Box(0, 255, (2, 3), np.uint8), UNIT, NET),
    "gem-discrete": Case("gem-discrete", vector(5), THREE, NET),
    "students": Case("gem-discrete-released", vector(5), THREE, NET),
    "first network": Case("clipped-ddqn", vector(5), THREE, NET),
    "dueling": Case("dueling-dqn", vector(5), Discrete(3, start=4), NET),
    "normalized, discrete": Case("gem-discrete", vector(5), THREE, NET | {"normalize_observations": True}),
    "numbered states": Case("dqn", Discrete(9, start=2), THREE, {"net_arch": (30,)}),
    "MinAtar": Case("gem-discrete", BITS, THREE, SIX),
    "Atari": Case("gem-discrete", ATARI, THREE, SIX | {"n_critics": 1}, frames=4),
    "Atari, dueling": Case("dueling-dqn", ATARI, THREE, SIX, frames=4),
    "channels last": Case("dqn", Box(0, 255, (40, 40, 3), np.uint8), THREE, SIX),
    "image of reals": Case("dqn", Box(-1, 1, (40, 44), np.float32), THREE, SIX),
    "tables": Case("gem-tabular", Discrete(9, start=2), Discrete(3, start=1), {}),
    "mfec": Case("mfec", vector(5), Discrete(3, start=4), {"k": 3}),
    "mfec, projected": Case("mfec", vector(9), THREE, {"k": 3, "projection": 4}),
    "mfec, bytes": Case("mfec", Box(0, 255, (6, 6, 3), np.uint8), THREE, {"k": 3}),
    "mfec, bits": Case("mfec", boxed(0, 1, (6, 6, 3), np.bool_), THREE, {"k": 3, "projection": 0}),
    "mfec, states": Case("mfec", Discrete(9, start=2), THREE, {"k": 9}),
    "mfec, projected states": Case("mfec", Discrete(9, start=2), THREE, {"k": 3, "projection": 4}),
    "nec, normalized": Case("nec", vector(5), Discrete(3, start=4), KEYS | {"normalize_observations": True}),
    "nec, bits": Case("nec", BITS, THREE, KEYS),
    "nec, states": Case("nec", Discrete(9, start=2), THREE, KEYS),
}


LOOKUPS = ("mfec", "nec")
"""Algorithms whose policies look up rows in a memory."""


def made(case: Case) -> gemrl.Model:
    """A model with random weights, normalizer and tables, without an environment."""
    chosen = RECIPES[case.algo].but(**case.fields | ({"rows_per_action": 50} if case.algo in LOOKUPS else {}))
    model = model_class(case.algo).from_recipe(chosen, Spaces(case.observation, case.action, case.frames), seed=1)
    rng = np.random.default_rng(2)
    if case.algo == "mfec":
        _remember(model, rng)
        return model
    arrays = model.get_parameters()
    noisy = {name: array + rng.normal(0, 0.5, array.shape) for name, array in arrays.items() if array.dtype.kind == "f"}
    noisy |= {name: np.abs(array) for name, array in noisy.items() if "variance" in name}
    if case.algo == "nec":  # more than k rows of the first action, fewer of the second, none of the third
        used = np.where(np.arange(50) < np.array([[40], [2], [0]]), 0, arrays["dictionary.used"])
        squares = (noisy["dictionary.key"] ** 2).sum(-1)
        noisy |= {"dictionary.used": used, "dictionary.norm": np.where(used < 0, np.inf, squares)}
    if case.algo == "gem-tabular":
        noisy["q"] = rng.integers(3, size=arrays["q"].shape).astype(float)  # with ties
    model.set_parameters(arrays | {name: array.astype(arrays[name].dtype) for name, array in noisy.items()})
    return model


def _remember(model: gemrl.Model, rng: np.random.Generator) -> None:
    """Writes returns of random states: more than k of the first action, fewer of the second, none of the third."""
    agent: Any = model.agent
    states = agent.encode(model.spaces.batch(observations(model)[:25])[0])
    for number, state in enumerate(states):
        agent.memory.tables[number % 12 == 5].write(*state, rng.normal())


def observations(model: gemrl.Model) -> np.ndarray:
    """Random observations; images are black below a random row, or all would look alike to a network."""
    batch = random_observations(model.spaces.seen, COUNT)
    if model.spaces.layout.is_image:
        rows, first = batch.shape[2], np.random.default_rng(3).integers(batch.shape[2] + 1, size=(COUNT, 1, 1, 1))
        batch[np.broadcast_to(np.arange(rows)[:, None] >= first, batch.shape) if batch.ndim == 4 else batch < 0] = 0
    return batch


def load_policy(folder: Path) -> Any:
    """The class in an exported policy.py."""
    spec = importlib.util.spec_from_file_location(f"policy_{abs(hash(folder))}", folder / "policy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Policy


def runner(folder: Path, name: str) -> Callable[[np.ndarray], Any]:
    """Runs an exported policy on a batch as a user would."""
    if name == "onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(str(folder / "policy.onnx"))
        dtypes = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_, "tensor(int64)": np.int64}
        dtype = dtypes[session.get_inputs()[0].type]
        return lambda batch: session.run(["action"], {"observation": batch.astype(dtype)})[0]
    if name == "torch":
        pytest.importorskip("torch")
    return load_policy(folder)(str(folder / FORMATS[name].files[0])).act


def check_acts_alike(
    model: gemrl.Model, batch: np.ndarray, expected: np.ndarray, act: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Actions are equal to 1e-5 of the largest action, and exactly if they are whole; dtypes and shapes are equal."""
    found = act(batch)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind == "f":
        assert isinstance(model.action_space, Box)
        assert (np.abs(found - expected) <= 1e-5 * np.maximum(1, np.abs(model.action_space.high))).all()
        assert expected.std() > 0
    else:
        np.testing.assert_array_equal(found, expected)
        assert len(np.unique(expected)) > 1


@functools.cache
def prepared(case: str) -> tuple[gemrl.Model, np.ndarray, np.ndarray]:
    """A model, observations and the actions that it predicts."""
    model = made(CASES[case])
    batch = observations(model)
    return model, batch, model.predict(batch, deterministic=True)[0]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_an_exported_policy_acts_like_the_model(case: str, name: str, tmp_path: Path) -> None:
    model, batch, expected = prepared(case)
    if CASES[case].algo in LOOKUPS and name != "numpy":
        with pytest.raises(BadValue, match=f"{name} cannot express; use the format numpy"):
            model.export(tmp_path / "new", name)
        assert not (tmp_path / "new").exists()
        return
    model.export(tmp_path, name)
    assert {file.name for file in tmp_path.iterdir()} == set(FORMATS[name].files)
    check_acts_alike(model, batch, expected, runner(tmp_path, name))


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("case", ["gem", "whole actions", "actions of shape ()", "dueling", "MinAtar", "tables"])
def test_a_single_observation(case: str, name: str, tmp_path: Path) -> None:
    model, batch, _ = prepared(case)
    model.export(tmp_path, name)
    action, expected = runner(tmp_path, name)(batch[3]), model.predict(batch[3], deterministic=True)[0]
    assert (np.shape(action), action.dtype, type(action)) == (expected.shape, expected.dtype, type(expected))
    np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-5)


ALONE = """
import sys
for name in ("jax", "jaxlib", "equinox", "gemrl", "safetensors", "gymnasium", "torch"):
    sys.modules[name] = None  # importing it raises
sys.path.insert(0, sys.argv[1])
import numpy as np
from policy import Policy
np.save(f"{sys.argv[1]}/actions.npy", Policy(f"{sys.argv[1]}/policy.npz").act(np.load(f"{sys.argv[1]}/observations.npy")))
"""


@pytest.mark.parametrize("case", ["gem", "Atari", "mfec"])
def test_a_numpy_policy_needs_numpy_only(case: str, tmp_path: Path) -> None:
    model = made(CASES[case])
    model.export(tmp_path)
    batch = observations(model)[:20]
    np.save(tmp_path / "observations.npy", batch)
    words = [sys.executable, "-I", "-c", ALONE, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "actions.npy"), model.predict(batch, deterministic=True)[0], atol=1e-5)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_observations_of_a_wrong_shape_are_refused(name: str, tmp_path: Path) -> None:
    made(CASES["gem"]).export(tmp_path, name)
    act = runner(tmp_path, name)
    for wrong in (np.zeros(4), np.zeros((2, 2, 5)), 0.0):
        with pytest.raises(ValueError, match=r"has shape \(5,\)"):
            act(wrong)  # type: ignore[arg-type]


def test_a_torch_policy_is_a_module(tmp_path: Path) -> None:
    """Its arrays are its state, and it takes tensors."""
    torch = pytest.importorskip("torch")
    model = made(CASES["normalized"])
    model.export(tmp_path, "torch")
    policy = load_policy(tmp_path)(str(tmp_path / "policy.safetensors"))
    batch = torch.tensor(observations(model)[:7])
    assert isinstance(policy, torch.nn.Module)
    assert {name.partition("_")[0] for name in policy.state_dict()} >= {"weight", "bias", "scale", "mean", "deviation"}
    expected, _ = model.predict(batch.numpy(), deterministic=True)
    np.testing.assert_allclose(policy(batch).numpy(), expected, atol=1e-5)


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in FORMATS:
        for folder in ("a", "b"):
            made(CASES["dueling"]).export(tmp_path / folder / name, name)
        for file in FORMATS[name].files:
            assert (tmp_path / "a" / name / file).read_bytes() == (tmp_path / "b" / name / file).read_bytes()


@dataclass(frozen=True)
class Doubling(Body):
    """A body of a user."""

    def least_weights(self, inputs: int) -> int:
        return inputs


class DoublingNetwork(BodyNetwork):
    """A linear map of x + x."""

    output: Layer
    width: int = eqx.field(static=True, default=0)

    @staticmethod
    def init(rng: np.random.Generator, body: Doubling, inputs: int, outputs: int, again: int = 0) -> DoublingNetwork:
        return DoublingNetwork(Layer.init(rng, inputs, outputs))

    def __call__(self, x: Array, again: Array | None = None) -> Array:
        return self.output.linear(x + x)


def test_a_body_of_a_user_is_refused_until_it_is_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One function serves all formats."""
    monkeypatch.setitem(NETWORKS, type(Doubling()), DoublingNetwork.init)
    model = made(CASES["gem"]._replace(fields={"body": Doubling()}))
    batch = observations(model)
    for name in FORMATS:
        with pytest.raises(BadValue, match=r"DoublingNetwork cannot be exported: .*describing.BODIES"):
            model.export(tmp_path / name, name)

    def doubling(builder: GraphBuilder, network: DoublingNetwork, x: str) -> str:
        arrays = builder.array("weight", network.output.weight), builder.array("bias", network.output.bias)
        return builder.add("linear", builder.add("add", x, x), *arrays)

    monkeypatch.setitem(describing.BODIES, type(model.agent.learner.actor.body), doubling)
    for name in FORMATS:
        model.export(tmp_path / name, name)
        check_acts_alike(model, batch, model.predict(batch, deterministic=True)[0], runner(tmp_path / name, name))


def test_an_unknown_family_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(describing.FAMILIES, type(RECIPES["sac"]))
    with pytest.raises(BadValue, match="SoftRecipe cannot be exported"):
        made(CASES["sac"]).export(tmp_path)


def test_an_onnx_file_that_acts_differently_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    broken = replace(FORMATS["onnx"], run=lambda file, batch: np.zeros((len(batch), 2), np.float32))
    monkeypatch.setitem(FORMATS, "onnx", broken)
    with pytest.raises(ModelFileError, match="does not act like the model"):
        made(CASES["gem"]).export(tmp_path, "onnx")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with tables."""
    folder = tmp_path_factory.mktemp("runs") / "lake"
    assert main(["train", "FrozenLake-v1", "--steps", "300", "--run", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("name", FORMATS)
def test_the_command_exports_a_run(run: Path, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run), "--format", name, "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "gem-tabular at step 300" in shown
    assert all(str(tmp_path / file) in shown for file in FORMATS[name].files)
    expected, _ = gemrl.load(run).predict(np.arange(16), deterministic=True)
    np.testing.assert_array_equal(runner(tmp_path, name)(np.arange(16)), expected)


def test_the_command_exports_a_saved_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = gemrl.GEM("Pendulum-v1", seed=0, **SMALL)
    batch = observations(model)
    model.save("pendulum")
    assert main(["export", "pendulum", "--format", "numpy"]) == 0
    assert main(["export", "pendulum.safetensors", "--format", "numpy", "--out", "again"]) == 0
    for folder in ("policy-numpy", "again"):
        check_acts_alike(model, batch, model.predict(batch, deterministic=True)[0], runner(tmp_path / folder, "numpy"))
    assert "gem at step 0" in capsys.readouterr().out


def one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and message of a command that must end in one line."""
    capsys.readouterr()
    code = main(["export", *words])
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    return code, shown.err


def test_wrong_formats_name_the_nearest_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert one_line([str(run), "--format", "onxn"], capsys) == (2, "gemrl: unknown format 'onxn'; did you mean 'onnx'?\n")
    assert one_line([str(run), "--format", "pickle"], capsys)[1].endswith("known: rl-zoo3, numpy, onnx, torch\n")
    with pytest.raises(BadValue, match="did you mean 'torch'"):
        made(CASES["gem"]).export("nowhere", "troch")


def test_existing_files_are_never_replaced(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.py").write_text("mine")
    code, message = one_line([str(run), "--format", "numpy", "--out", str(tmp_path)], capsys)
    assert code == 2
    assert "policy.py already exists; choose another folder with --out" in message
    assert [file.read_text() for file in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "policy.onnx").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match="already exists"):
        made(CASES["gem"]).export(tmp_path / "link", "onnx")


def test_a_folder_that_cannot_be_written(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    code, message = one_line([str(run), "--format", "numpy", "--out", str(tmp_path / "file" / "inner")], capsys)
    assert code == 2
    assert "cannot write to" in message


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_extra_is_named(package: str, run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package} is not installed: pip install 'gemrl\[export\]'"):
        made(CASES["gem"]).export(tmp_path, "onnx")
    assert main(["export", str(run), "--format", "onnx", "--out", str(tmp_path)]) == 2
    assert main(["export", str(run), "--format", "torch", "--out", str(tmp_path)]) == 0


def test_foreign_and_damaged_paths_end_in_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def message(path: Path) -> str:
        return one_line([str(path), "--format", "numpy", "--out", str(tmp_path / "out")], capsys)[1]

    assert "no model at" in message(tmp_path / "nothing")
    assert "is not a run folder" in message(run.parent)  # a folder of runs
    (tmp_path / "text.json").write_text("{}")
    assert "has format null" in message(tmp_path / "text.json")
    made(CASES["gem"]).save(tmp_path / "model")
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    assert "its checksum does not match" in message(tmp_path / "model")
    header = tmp_path / "model.json"
    header.write_text(header.read_text().replace('"gem"', '"td3"'))
    assert "is damaged" in message(tmp_path / "model")
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "run.json").write_text((run / "run.json").read_text())
    assert "contains no trained model" in message(empty)
    description = json.loads((run / "run.json").read_text())
    (empty / "run.json").write_text(json.dumps(description | {"env": "no_such_module:Lake-v0"}))
    assert "cannot import 'no_such_module'" in message(empty)  # it may have registered what the model is made of
    (empty / "run.json").write_text(json.dumps({"env": 3}))
    assert "run.json is damaged" in message(empty)
    assert not (tmp_path / "out").exists()


def test_perceptrons_of_actors_take_no_second_input() -> None:
    """So that `action_twice` need not be described."""
    model = made(CASES["LayerNorm first, action twice"])
    assert model.recipe.settable()["body"] == Perceptron((16, 12), norm_first=True, action_twice=True)
    assert model.agent.learner.actor.body.takes_again is False

"""Output of `gemrl memory`, compared with brute force on hand-made memories and on the raw arrays of a checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from gemrl.agents.memory.ring import Memory, Rows, empty_rows
from gemrl.algorithms.planning import LambdaReturn, NStep, Planner, Single, Twin, TwinReleased
from gemrl.algorithms.registry import RECIPES
from gemrl.analysis.figures.memory import PANELS, draw
from gemrl.analysis.figures.memory_panels import SHOWN, View, newest_whole
from gemrl.analysis.memory_view import CUT, RUNNING, TERMINATED, MemoryView, Numbers, available, rollouts, view_memory
from gemrl.cli.main import main
from gemrl.core.exceptions import BadValue
from gemrl.core.layout import Layout
from gemrl.experiments.run_folder import create
from tests import test_planning as oracle
from tests.test_cli import WORDS
from tests.test_planning import insert_row as insert
from tests.test_planning import plan_ring as plan

PLANNERS = (Twin(4), Twin(1000), Single(6), NStep(3), LambdaReturn(0.7, 5), TwinReleased(4))


def random_rows(rng: np.random.Generator, lanes: int, count: int) -> Rows:
    """Random rows, some of which terminate or are truncated."""
    rows = empty_rows(lanes, count, Layout((1,)))
    terminated, truncated = rng.random((2, lanes, count)) < 0.08
    rows.reward[:] = rng.normal(size=(lanes, count))
    rows.discount[:] = np.where(terminated, 0, 0.9)
    rows.last[:] = terminated | truncated
    return rows


def hand_made(planner: Planner, lanes: int = 2, total: int = 70, waiting: int = 3, pairs: int = 2) -> Memory:
    """A memory whose ring of 50 has wrapped around, with planned rows and `waiting` unplanned ones; lanes differ in size."""
    rng = np.random.default_rng(0)
    memory = Memory.empty(lanes, 50, Layout((1,)), pairs)
    for _ in range(2):
        memory = insert(memory, random_rows(rng, lanes, total // 2), np.array([total // 2] + [total // 6] * (lanes - 1)))
    memory = eqx.tree_at(lambda m: m.q_next, memory, jnp.array(rng.normal(size=memory.q_next.shape) * 2, jnp.float32))
    memory = plan(memory, planner)
    return insert(memory, random_rows(rng, lanes, total // 2), np.full(lanes, waiting))


def brute_numbers(lanes: list[oracle.Trajectories], planner: Planner) -> Numbers:
    """The statistics, row by row, from the definitions of the planners in tests/test_planning.py."""
    chosen, ends, caps, gaps, rows, trajectories = [], [], [], [], 0, 0
    for reward, discount, last, q_next in lanes:
        returns, lengths = oracle.brute(planner, (reward, discount, last, q_next))
        rows, trajectories = rows + len(reward), trajectories + int(last[:-1].sum()) + 1
        for t in range(len(reward)):
            for pair in range(len(q_next)):
                to_the_end = oracle.rollouts(reward, discount, last, q_next[pair], t, len(reward))
                chosen.append(lengths[pair, t])
                ends.append(lengths[pair, t] >= len(to_the_end))
                caps.append(lengths[pair, t] == planner.rollout_cap and not ends[-1])
                gaps.append(returns[pair, t] - to_the_end[-1])
    length, end, cap = np.array(chosen), np.mean(ends), np.mean(caps)
    middle = float(length.mean()), float(np.median(length)), float((length == 1).mean())
    return Numbers(rows, trajectories, *middle, float(end), float(cap), float(1 - end - cap), float(np.mean(gaps)))


def planned_rows(memory: Memory) -> list[oracle.Trajectories]:
    """The planned rows of each lane, in time order, by walking the ring from its head."""
    found: list[oracle.Trajectories] = []
    for lane in range(memory.size.shape[0]):
        size, waiting, head = (int(x[lane]) for x in (memory.size, memory.unplanned, memory.head))
        order = [(head - size + i) % memory.capacity for i in range(size - waiting)]
        reward, discount, last = (
            np.asarray(x)[lane, order] for x in (memory.rows.reward, memory.rows.discount, memory.rows.last)
        )
        found.append((reward, discount, last, np.asarray(memory.q_next)[:, lane, order]))
    return found


@pytest.mark.parametrize("planner", PLANNERS, ids=repr)
def test_statistics_equal_brute_force(planner: Planner) -> None:
    memory = hand_made(planner)
    found = view_memory(memory, planner)
    numbers, expected = Numbers.of(found), brute_numbers(planned_rows(memory), planner)
    np.testing.assert_allclose(list(vars(numbers).values()), list(vars(expected).values()), rtol=1e-5, atol=1e-5)
    assert found.waiting == 6
    assert 0 < numbers.to_the_end < 1


def test_statistics_with_one_critic_pair() -> None:
    memory = hand_made(Single(5), pairs=1)
    expected = brute_numbers(planned_rows(memory), Single(5))
    found = Numbers.of(view_memory(memory, Single(5)))
    np.testing.assert_allclose(list(vars(found).values()), list(vars(expected).values()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("planner", [Twin(4), Twin(1000)], ids=repr)
def test_rollouts_and_planned_returns_match_equations_7_and_8(planner: Planner) -> None:
    memory = view_memory(hand_made(planner), planner)
    for number in range(1, len(memory.starts) + 1):
        one = memory.trajectory(number)
        count = len(one)
        depth = min(count, planner.rollout_cap)
        values = rollouts(one, count, depth)
        assert one.last[:-1].sum() == 0
        for pair in range(2):
            for t in range(count):
                expected = oracle.rollouts(one.reward, one.discount, one.last, one.q_next[pair], t, depth)
                np.testing.assert_allclose(values[pair, t, : len(expected)], expected, rtol=1e-5, atol=1e-5)
                assert np.isnan(values[pair, t, len(expected) :]).all()
                best = oracle.first_best(expected)
                assert one.length[pair, t] == best + 1
                np.testing.assert_allclose(one.planned[pair, t], values[1 - pair, t, best], rtol=1e-4, atol=1e-5)
        some = rollouts(one, 1, 1)  # a subset of rows and lengths
        np.testing.assert_array_equal(some, values[:, :1, :1])


def literal(ends: list[tuple[float, bool]]) -> Memory:
    """One lane of rows with reward 1, given their discounts and whether they end a trajectory; q_next is 10."""
    rows = empty_rows(1, len(ends), Layout((1,)))
    rows.reward[:], rows.discount[0], rows.last[0] = 1, *map(np.array, zip(*ends, strict=True))
    memory = insert(Memory.empty(1, len(ends), Layout((1,)), 2), rows, np.array([len(ends)]))
    return plan(eqx.tree_at(lambda m: m.q_next, memory, jnp.full_like(memory.q_next, 10)), Twin(1000))


STEP, TERMINAL, LIMIT = (0.5, False), (0.0, True), (0.5, True)


def test_endings_and_monte_carlo_returns_by_hand() -> None:
    memory = view_memory(literal([STEP, TERMINAL, STEP, LIMIT, STEP, STEP]), Twin(1000))
    assert [memory.trajectory(number).ending for number in (1, 2, 3)] == [TERMINATED, CUT, RUNNING]
    # A terminal row has the value of its reward; at a time limit and at the newest row the estimate, 10, is added.
    np.testing.assert_allclose(memory.monte_carlo[0], [1.5, 1, 1 + 0.5 * 6, 6, 1 + 0.5 * 6, 6])
    np.testing.assert_array_equal(memory.length[0], [1, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(memory.planned[0], [6, 1, 6, 6, 6, 6])  # bootstrapping after one step is best
    np.testing.assert_array_equal(memory.by_choice[0], [True, False, True, False, True, False])
    assert newest_whole(memory) == 2
    assert newest_whole(view_memory(literal([STEP, STEP]), Twin(1000))) == 1


@pytest.mark.parametrize("number", [0, 4])
def test_unknown_episodes_are_rejected(number: int) -> None:
    with pytest.raises(BadValue, match=f"no episode {number}: the memory holds 3, numbered"):
        view_memory(literal([STEP, TERMINAL, STEP, LIMIT, STEP, STEP]), Twin(1000)).trajectory(number)


@pytest.mark.parametrize("planner", [*PLANNERS[2:], Single(3)], ids=repr)
def test_every_planner_is_drawn(planner: Planner) -> None:
    memory = view_memory(hand_made(planner, pairs=1 if planner == Single(3) else 2), planner)
    for panels in (PANELS, ["step"]):
        assert draw(View("a title", memory, newest_whole(memory)), panels)[:4] == b"\x89PNG"


def test_only_the_start_of_a_long_trajectory_is_drawn() -> None:
    count, planner = 3 * SHOWN, Twin(10**6)
    reward, discount, last = np.sin(np.arange(count)), np.full(count, 0.99), np.zeros(count, bool)
    q_next = np.cos([np.arange(count), np.arange(count) + 1])
    data = reward, discount, last, q_next
    observed = NStep(count)(*data)
    memory = MemoryView(planner, *data, planner(*data), planner.chosen(*data), available(last), observed, np.zeros(1, int), 0)
    view = View("long", memory, 1)
    assert view.values.shape == (2, SHOWN, SHOWN)
    assert draw(view)[:4] == b"\x89PNG"
    with pytest.raises(BadValue, match="no step 1001 to draw: episode 1 has 3,000 steps, of which 1,000 are drawn"):
        _ = View("long", view.memory, 1, SHOWN + 1).step


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two environments and two checkpoints."""
    folder = tmp_path_factory.mktemp("runs") / "pendulum"
    words = ["train", "Pendulum-v1", "--steps", "700", "--run", str(folder), "--n-envs", "2", "--checkpoint-every", "400"]
    assert main([*words, *WORDS, "--set", "depth=20", "--eval-every", "700"]) == 0
    return folder


def test_command_prints_the_statistics_of_the_checkpoint(run: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    capsys.readouterr()
    assert main(["memory", str(run), "--out", str(tmp_path / "new" / "picture.png")]) == 0
    shown = capsys.readouterr().out.splitlines()
    raw = load_file(run / "checkpoints" / "000000700" / "model.memory.safetensors")
    raw = {name.removeprefix("learning.memory."): array for name, array in raw.items() if name.startswith("learning.memory.")}
    lanes = [(raw["reward"][lane], raw["discount"][lane], raw["last"][lane], raw["q_next"][:, lane]) for lane in range(2)]
    expected = brute_numbers(lanes, Twin(20))
    assert shown[0] == "gem on Pendulum-v1, seed 0, step 700: Twin(depth=20)"
    assert shown[1].split(maxsplit=1)[1] == "700 in 4 trajectories"
    assert (
        f"mean {expected.mean_length:.2f}, median {expected.median_length:g}; {expected.one_step:.1%} have length 1" in shown[2]
    )
    assert shown[3].endswith(f"{expected.to_the_end:.1%}")
    assert shown[4].endswith(f"{expected.at_the_cap:.1%} at the cap of 20, {expected.by_choice:.1%} by choice")
    assert f"{expected.gap:+,.2f} on average" in shown[5]
    content = (tmp_path / "new" / "picture.png").read_bytes()
    assert content[:4] == b"\x89PNG"
    assert int.from_bytes(content[16:20], "big") >= 1600  # the width in the header of a PNG


def test_other_file_formats_and_a_chosen_episode(run: Path, tmp_path: Path) -> None:
    words = ["memory", str(run), "--episode", "3", "--step", "7", "--only", "step", "rewards", "--out"]
    assert main([*words, str(tmp_path / "a.svg")]) == 0
    assert main([*words, str(tmp_path / "b.svg")]) == 0
    text = (tmp_path / "a.svg").read_text()
    assert "episode 3 in memory" in text
    assert "step t = 7" in text
    assert "chosen rollout length" not in text
    assert text == (tmp_path / "b.svg").read_text()
    assert main([*words, str(tmp_path / "c.pdf")]) == 0
    assert (tmp_path / "c.pdf").read_bytes()[:4] == b"%PDF"


def test_help_names_every_panel(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["memory", "--help"])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    assert all(panel in shown for panel in PANELS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--episode", "5"], "there is no episode 5: the memory holds 4, numbered from 1 (the oldest) to 4"),
        (["--episode", "0"], "'0' is not a whole number of at least 1"),
        (["--step", "201"], "there is no step 201 to draw: episode 3 has 200 steps"),
        (["--only", "lenghts"], "unknown panel 'lenghts'; did you mean 'lengths'?"),
        (["--out", "picture.jpg"], "unknown image format '.jpg'"),
        (["--out", "{run}/run.json/x.png"], "cannot write to"),
        (["--epsiode", "1"], "unknown option '--epsiode'; did you mean '--episode'?"),
    ],
)
def test_usage_errors_are_reported_and_write_nothing(
    run: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(run.rglob("*"))
    capsys.readouterr()
    assert main(["memory", str(run), *(word.format(run=run) for word in words)]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert message in shown.err
    assert sorted(run.rglob("*")) == before


def test_missing_checkpoints_are_reported(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(run / "run.json", tmp_path)
    assert main(["memory", str(tmp_path)]) == 2
    assert "has no checkpoint, and only checkpoints contain the memory" in capsys.readouterr().err
    assert main(["memory", str(tmp_path / "nowhere")]) == 2
    assert "is not a run folder" in capsys.readouterr().err
    (tmp_path / "run.json").write_text(json.dumps(json.loads((run / "run.json").read_text()) | {"recipe": 3}))
    assert main(["memory", str(tmp_path)]) == 2
    assert "recipe must be an object with fields, not 3" in capsys.readouterr().err


def test_damaged_checkpoint_falls_back_to_the_previous_one(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(run, tmp_path / "run")
    for step, code in (("000000700", 0), ("000000400", 1)):
        file = tmp_path / "run" / "checkpoints" / step / "model.memory.safetensors"
        file.write_bytes(file.read_bytes()[:-1])
        capsys.readouterr()
        assert main(["memory", str(tmp_path / "run"), "--only", "lengths"]) == code
        assert "trying the previous checkpoint" in capsys.readouterr().err
    assert (tmp_path / "run" / "memory.png").exists()


@pytest.mark.parametrize("algo", ["td3", "td3-sil", "sac", "redq"])
def test_recipes_without_planned_returns_are_rejected(algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    create(tmp_path, {"algo": algo, "env": "Pendulum-v1", "seed": 0, "recipe": RECIPES[algo].as_dict()})
    assert main(["memory", str(tmp_path)]) == 2
    assert f"{algo} plans no returns in its memory" in capsys.readouterr().err


def test_memory_of_gem2_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its minibatches follow the rollouts that the picture shows."""
    words = ["train", "Pendulum-v1", "--algo", "gem2", "--steps", "400", "--run", str(tmp_path / "run"), "--eval-episodes", "1"]
    fields = ["net_arch=(8,)", "features=4", "every=100", "learning_starts=100", "batch_size=16", "train_freq=50"]
    assert main([*words, "--set", *fields, "gradient_steps=2"]) == 0
    capsys.readouterr()
    assert main(["memory", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "memory.png").exists()
    assert "400" in capsys.readouterr().out


def test_memory_without_planned_rows_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "Pendulum-v1", "--steps", "50", "--run", str(tmp_path / "run"), *WORDS, "--eval-episodes", "1"]
    assert main(words) == 0
    assert main(["memory", str(tmp_path / "run")]) == 2
    assert "no row of this memory was planned yet" in capsys.readouterr().err

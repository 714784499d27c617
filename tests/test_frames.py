"""The memory that stores each image once, compared with one that stores whole stacks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation

from gemrl import DQN
from gemrl.agents.discrete_learner import init_learner
from gemrl.agents.memory.frames import Frames
from gemrl.agents.memory.ring import Memory, row_bytes
from gemrl.agents.memory.staging import Staging
from gemrl.agents.memory.storage import restored, snapshot_of
from gemrl.algorithms.planning import Twin
from gemrl.algorithms.recipes.discrete import DiscreteRecipe
from gemrl.core.exceptions import BadValue, ModelFileError
from gemrl.core.layout import Layout
from gemrl.core.snapshot import Snapshot
from gemrl.envs.single import Task
from gemrl.envs.spaces import Spaces
from gemrl.envs.vector import Tasks
from tests.compiled import cut, discrete_batch_of, discrete_refresh, discrete_state_values, draw, insert, plan

LAYOUT = Layout((4, 6, 5), 1, 3, "uint8", frames=4)
RECIPE = DiscreteRecipe(net_arch=(8,), batch_size=64)


class Screen(gym.Env):
    """Random screens; episodes of random lengths that terminate or are truncated, some after one step."""

    observation_space = gym.spaces.Box(0, 255, (6, 5), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.choice([1, 2, 3, 9, 25]))
        self.terminates = bool(self.np_random.random() < 0.5)
        return self._screen(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        over = self.left == 0
        return self._screen(), float(self.np_random.random()), over and self.terminates, over and not self.terminates, {}

    def _screen(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (6, 5), dtype=np.uint8)


def played(steps: int, lanes: int = 1) -> list[Any]:
    """Transitions of stacked screens, with a reset in the middle as between two calls of `learn`."""
    envs: list[gym.Env] = [FrameStackObservation(Screen(), 4) for _ in range(lanes)]
    task: Any = Tasks(envs, 0) if lanes > 1 else Task(envs[0], 0)
    assert task.spaces.layout == LAYOUT
    rng, transitions, observation = np.random.default_rng(0), [], task.reset()
    for number in range(steps):
        if number == steps // 2:
            transitions.append("cut")
            observation = task.reset()
        taken = task.step(observation, LAYOUT.random_actions(lanes, rng))
        transitions.append(taken.transition)
        observation = taken.observation
    return transitions


def stored_in_memory(layout: Layout, transitions: list[Any], capacity: int, lanes: int = 1) -> Memory:
    """A memory to which these transitions were added in small blocks."""
    memory, staging = Memory.empty(lanes, capacity, layout, 2), Staging(lanes, 7, layout)
    for transition in transitions:
        if staging.full or transition == "cut":
            memory = insert(memory, *staging.take())
        if transition == "cut":
            for lane in range(lanes):
                memory = cut(memory, jnp.array(lane))
            staging.cut()
        else:
            staging.add(transition, 0.99)
    return insert(memory, *staging.take())


@pytest.mark.parametrize(("steps", "capacity", "lanes"), [(60, 100, 1), (400, 100, 1), (300, 60, 3)])
def test_batches_and_values_equal_those_of_whole_stacks(steps: int, capacity: int, lanes: int) -> None:
    """Before and after the ring wraps, with terminations, truncations, episodes of one step and a reset."""
    compare_with_whole_stacks(LAYOUT, played(steps, lanes), capacity, lanes)


def compare_with_whole_stacks(layout: Layout, transitions: list[Any], capacity: int, lanes: int = 1) -> None:
    """Asserts that both kinds of memory give the same minibatches and values."""
    compact = stored_in_memory(layout, transitions, capacity, lanes)
    plain = stored_in_memory(layout._replace(frames=1), transitions, capacity, lanes)
    np.testing.assert_array_equal(compact.size, plain.size)
    learner = init_learner(RECIPE, layout, 0)
    ours, theirs = (plan(discrete_refresh(RECIPE, learner, memory, memory.size), Twin(20)) for memory in (compact, plain))
    np.testing.assert_array_equal(ours.q_next, theirs.q_next)
    np.testing.assert_array_equal(ours.planned, theirs.planned)
    index = draw(compact, jax.random.key(1), (200,), planned=False)
    mine, whole = (discrete_batch_of(RECIPE, learner, memory, index) for memory in (ours, theirs))
    for one, other in zip(mine, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    following = [
        memory.observations(index.lane, memory.rows.next_observation[index.lane, index.position]) for memory in (compact, plain)
    ]
    np.testing.assert_array_equal(*following)
    np.testing.assert_array_equal(*(discrete_state_values(RECIPE, learner, states) for states in following))


def test_the_frame_limit_of_atari_truncates_episodes() -> None:
    """With a limit of 400 frames instead of 108,000: returns bootstrap at the limit, and its last image is stored."""
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    from gemrl.envs.making import make

    default = make("ALE/Pong-v5")
    assert default.spec is not None
    assert default.spec.kwargs["max_num_frames_per_episode"] == 108_000
    env = make("ALE/Pong-v5", max_num_frames_per_episode=400)
    task, rng, transitions = Task(env, 0), np.random.default_rng(0), []
    layout, observation = task.spaces.layout, task.reset()
    for _ in range(230):
        taken = task.step(observation, layout.random_actions(1, rng))
        transitions.append(taken.transition)
        observation = taken.observation
    ends = [number for number, step in enumerate(transitions) if step.truncated[0]]
    assert len(ends) == 2
    assert 90 <= ends[0] < 100  # no-ops at the start count too
    assert not any(step.terminated[0] for step in transitions)
    compact = stored_in_memory(layout, transitions, 300).lane()
    np.testing.assert_array_equal(np.flatnonzero(compact["last"]), ends)
    np.testing.assert_array_equal(compact["discount"], np.float32(0.99))
    compare_with_whole_stacks(layout, transitions, 150)


def test_rows_are_dropped_with_their_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes of one step have two images per row, so the image ring overflows; no row may refer to a lost image."""
    monkeypatch.setattr("gemrl.agents.memory.frames.SPARE", 16)
    monkeypatch.setattr(Screen, "reset", _short)
    transitions = played(300)
    compact = stored_in_memory(LAYOUT, transitions, 100)
    plain = stored_in_memory(LAYOUT._replace(frames=1), transitions, 100)
    size = int(compact.size[0])
    assert 50 <= size < 70
    assert int(plain.size[0]) == 100
    ours, theirs = (memory.lane() for memory in (compact, plain))
    lane = np.zeros(size, int)
    for name in ("observation", "next_observation"):
        stacks = compact.observations(lane, ours[name])
        np.testing.assert_array_equal(stacks, theirs[name][-size:])
    planned = plan(compact, Twin(5))
    assert np.isfinite(planned.planned_returns()).all()
    again = restored(snapshot_of(compact), 1, 100, LAYOUT, 2)
    for name, column in again.lane().items():
        np.testing.assert_array_equal(column, ours[name])


def _short(self: Screen, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
    gym.Env.reset(self, seed=seed)
    self.left, self.terminates = 1, True
    return self._screen(), {}


def test_a_row_of_atari_takes_seven_kilobytes() -> None:
    atari = Layout((4, 84, 84), 1, 9, "uint8", frames=4)
    assert row_bytes(atari, 2) == 84 * 84 + 4 * 2 * 2 + 4 * (1 + 2 + 4) + 1
    memory = Memory.empty(1, 2000, atari, 2)
    assert sum(x.nbytes for x in jax.tree.leaves(memory)) / 2000 < 1.3 * row_bytes(atari, 2)
    assert Frames.empty(1, 1_000_000, atari._replace(observation=(4, 1, 1))).pixels.shape[1] / 1e6 < 1.02


def test_images_that_were_never_written_are_not_saved() -> None:
    compact = stored_in_memory(LAYOUT, played(40), 300)
    assert compact.frames is not None
    saved, written = snapshot_of(compact), int(compact.frames.written[0])
    assert saved.arrays["frames"].shape[1] == saved.facts["images"] == written < compact.frames.pixels.shape[1] / 4
    again = restored(saved, 1, 300, LAYOUT, 2)
    for ours, theirs in zip(jax.tree.leaves(compact), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ModelFileError, match="cannot hold 9999"):
        restored(Snapshot(saved.facts | {"images": 9999}, saved.arrays), 1, 300, LAYOUT, 2)


def test_staging_of_images_continues_from_a_snapshot() -> None:
    transitions = [one for one in played(40) if one != "cut"]
    uninterrupted, first, second = (Staging(1, 20, LAYOUT) for _ in range(3))
    for number, transition in enumerate(transitions[:20]):
        uninterrupted.add(transition, 0.99)
        (first if number < 10 else second).add(transition, 0.99)
        if number == 9:
            second.restore(first.snapshot())
    ours, theirs = second.take(), uninterrupted.take()
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_atari_has_stacked_observations_and_unclipped_rewards() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    from gemrl.envs.making import make

    env = make("ALE/MsPacman-v5")
    assert Spaces.of(env).layout == Layout((4, 84, 84), 1, 9, "uint8", frames=4)
    assert env.unwrapped.ale.getFloat("repeat_action_probability") == 0.0  # type: ignore[attr-defined]
    sticky = make("ALE/MsPacman-v5", repeat_action_probability=0.25)
    assert sticky.get_wrapper_attr("repeat_action_probability") == 0.25
    assert not env.has_wrapper_attr("repeat_action_probability")
    env.reset(seed=0)
    rewards = [float(env.step(2)[1]) for _ in range(120)]
    assert max(rewards) >= 10  # a pill is ten points


def test_a_saved_memory_needs_the_same_frame_stacking(tmp_path: Path) -> None:
    """Without a memory, only the observations must be the same."""
    hidden = partial(gym.wrappers.RecordEpisodeStatistics, FrameStackObservation(Screen(), 4))
    fields: dict[str, Any] = {"net_arch": (8,), "batch_size": 4, "buffer_size": 100}
    model = DQN(hidden(), seed=0, **fields)
    model.learn(20, eval_env=lambda: FrameStackObservation(Screen(), 4), eval_every=20, eval_episodes=1)
    model.save(tmp_path / "bare")
    model.save(tmp_path / "whole", memory=True)
    assert DQN.load(tmp_path / "bare", FrameStackObservation(Screen(), 4)).spaces.layout.frames == 4
    with pytest.raises(BadValue, match="must not have FrameStackObservation as its outermost wrapper"):
        DQN.load(tmp_path / "whole", FrameStackObservation(Screen(), 4))
    with pytest.raises(BadValue, match="must have FrameStackObservation"):
        DQN(FrameStackObservation(Screen(), 4), seed=0, **fields).set_env(hidden())

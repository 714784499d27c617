"""Kills a training at random moments and goes on with it until it is done; damages its files in every way. `make torture`."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from gemrl.core.files import TEMPORARY
from gemrl.experiments.versions import versions

ROOT = Path(__file__).parents[1]

PROOFS = ("evaluations.csv", "model.json", "model.safetensors")
"""Files of a finished run that must be the same bytes; those of its last checkpoint too."""


def words_of(command: str, *words: str) -> list[str]:
    """The words that run gemrl in a process of its own."""
    return [sys.executable, "-m", "gemrl", command, *words]


def run_undisturbed(folder: Path, *words: str) -> None:
    """Trains in one go."""
    subprocess.run(words_of("train", *words, "--run", str(folder)), check=True, capture_output=True, env=os.environ)


class Kills(NamedTuple):
    """How often a training was killed at work, and how often of these during the writing of a file."""

    all: int
    during_writes: int


def run_killed(folder: Path, kills: int, span: int, rng: random.Random, *words: str) -> Kills:
    """Trains the same, killed up to `kills` times, and then to its end.

    Every second time that is during the writing of a file, else after up to `span` steps, however fast the machine is.
    """
    done = during_writes = 0
    while done < kills:
        begun = (folder / "run.json").exists()
        command = words_of("resume", str(folder)) if begun else words_of("train", *words, "--run", str(folder))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
        if done % 2:
            writing = _wait_for_writes(folder, process, rng.randrange(1, 4))
        else:
            writing = _wait_for_steps(folder, process, rng.randrange(span), rng.uniform(0, 0.3))
        finished = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        if process.wait() >= 0 and finished:
            break
        done, during_writes = done + 1, during_writes + writing
    subprocess.run(words_of("resume", str(folder)), check=True, capture_output=True, env=os.environ)
    return Kills(done, during_writes)


def _wait_for_steps(folder: Path, process: subprocess.Popen[bytes], steps: int, seconds: float) -> bool:
    """Waits until its checkpoints are so many steps further, and a moment longer; it is not known to be writing."""
    target = _newest(folder) + steps
    while process.poll() is None and _newest(folder) < target:
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return False


def _newest(folder: Path) -> int:
    """The step of its newest checkpoint."""
    return max((int(place.name) for place in folder.glob("checkpoints/[0-9]*") if place.name.isdecimal()), default=0)


def _wait_for_writes(folder: Path, process: subprocess.Popen[bytes], number: int) -> bool:
    """Waits until it writes for the n-th time; False if it ends before that."""
    before = True
    while process.poll() is None:
        now = _writing(folder)
        number -= now and not before
        if number == 0:
            return True
        before = now
        time.sleep(0.0005)
    return False


def _writing(folder: Path) -> bool:
    return any(any(place.glob(f"{TEMPORARY}*")) for place in (folder, folder / "checkpoints"))


def differences(one: Path, other: Path) -> list[str]:
    """The names of files in which two finished runs differ."""
    checkpoints = [max((folder / "checkpoints").glob("[0-9]*")) for folder in (one, other)]
    differ = [name for name in PROOFS if (one / name).read_bytes() != (other / name).read_bytes()]
    names = ("model.safetensors", "model.memory.safetensors", "evaluations.csv")
    differ += [f"checkpoint {n}" for n in names if len({(folder / n).read_bytes() for folder in checkpoints}) > 1]
    leftovers = [str(file) for folder in (one, other) for file in folder.rglob(f"{TEMPORARY}*")]
    return differ + leftovers + (["step"] if checkpoints[0].name != checkpoints[1].name else [])


KILLED = {
    "HalfCheetah-v5": ["--steps", "2500", "--checkpoint-every", "100"],
    "Pendulum-v1": ["--steps", "6000", "--checkpoint-every", "150"],
    "MinAtar/Breakout-v1": ["--steps", "2500", "--checkpoint-every", "100"],
    "ALE/MsPacman-v5": ["--steps", "1200", "--checkpoint-every", "60", "--sticky", "0.25", "--set", "gradient_steps=1"],
}
"""Runs that are killed, by environment; sticky actions, so that the game's own chance must go on too."""
KILLED["MinAtar/Breakout-v1"] += ["--set", "gradient_steps=2", "target_update_interval=400"]
KILLED["ALE/MsPacman-v5"] += [
    "train_freq=20",
    "batch_size=8",
    "target_update_interval=400",
    "buffer_size=400",
]  # whose images wrap

COMMON = ["--eval-every", "500", "--eval-episodes", "1", "--threads", "1"]
COMMON += ["--set", "learning_starts=300", "gradient_steps=20", "net_arch=(64, 64)", "buffer_size=1500"]


def kill_often(workplace: Path, env: str, words: list[str], kills: int) -> str:
    """Kills runs of one seed after the other until there were enough kills; the row of a table."""
    done, during, differ = 0, 0, set()
    for seed in itertools.count():
        places = [workplace / f"{env.replace('/', '-')}-{seed}-{kind}" for kind in ("undisturbed", "killed")]
        all_words = [env, "--seed", str(seed), *COMMON, *words]
        run_undisturbed(places[0], *all_words)
        found = run_killed(places[1], kills - done, int(words[1]) // 8, random.Random(seed), *all_words)
        done, during = done + found.all, during + found.during_writes
        differ |= set(differences(*places))
        if done >= kills:
            break
    outcome = "same bytes" if not differ else f"DIFFERENT: {', '.join(sorted(differ))}"
    return f"| SIGKILL, gem on {env}, {seed + 1} run(s) | {done}, {during} of them during a write | {outcome} |"


def full_disk(workplace: Path) -> str:
    """Trains on a file system of 1.2 MB until it is full, makes room, and goes on; what came of it."""
    place = workplace / "small"
    place.mkdir()
    mounting = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(place)], capture_output=True, check=False)
    if mounting.returncode:
        return "not run: needs the right to mount a file system"
    try:
        words = ["Pendulum-v1", *KILLED["Pendulum-v1"], *COMMON]
        ended = subprocess.run(
            words_of("train", *words, "--run", str(place / "run")), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 1, ended
        assert "No space left on device; its last checkpoint is kept" in ended.stderr, ended
        kept = len(list((place / "run" / "checkpoints").iterdir()))
        assert kept, "nothing to go on from"
        subprocess.run(["mount", "-o", "remount,size=100m", str(place)], check=True)
        subprocess.run(words_of("resume", str(place / "run")), check=True, capture_output=True)
        run_undisturbed(workplace / "roomy", *words)
        assert differences(workplace / "roomy", place / "run") == []
    finally:
        subprocess.run(["umount", str(place)], check=True)
    return f"ended with one line and exit code 1; with {kept} checkpoints kept, it went on to the same bytes"


def main() -> None:
    """Kills, damages, fills the disk; writes the outcome into docs/reliability.md."""
    import argparse
    import tempfile

    from tests.fuzz import Fuzzer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50 * len(KILLED))
    parser.add_argument("--damages", type=int, default=10_000)
    options = parser.parse_args()
    lines = ["| what | how often | outcome |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        workplace = Path(name)
        for env, words in KILLED.items():
            lines.append(kill_often(workplace, env, words, options.kills // len(KILLED)))
            print(lines[-1], flush=True)
        places = sorted(workplace.glob("*-undisturbed"))
        fuzzer = Fuzzer(max((places[0] / "checkpoints").iterdir()), workplace, seed=1)
        for number in range(options.damages):
            fuzzer.hostile() if number % 4 == 0 else fuzzer.honest()
        outcome = f"{fuzzer.refused:,} refused by name, {fuzzer.loaded:,} harmless and loaded"
        lines.append(f"| damaged checkpoint files | {options.damages:,} | {outcome} |")
        lines.append(f"| full disk (tmpfs) | 1 | {full_disk(workplace)} |")
        os.chdir(ROOT)
    found = versions()
    told = f"Python {found['python']}, JAX {found['jax']}, gymnasium {found['gymnasium']}, MuJoCo {found['mujoco']}"
    replace_between(ROOT / "docs" / "reliability.md", "torture", "\n".join([*lines, "", told]))
    print("\n".join(lines[2:]))


def replace_between(page: Path, mark: str, text: str) -> None:
    """Writes `text` between the page's comments <!-- mark --> and <!-- /mark -->."""
    before, _, rest = page.read_text().partition(f"<!-- {mark} -->\n")
    after = rest.partition(f"<!-- /{mark} -->")[2]
    page.write_text(f"{before}<!-- {mark} -->\n{text}\n<!-- /{mark} -->{after}")


if __name__ == "__main__":
    main()

"""Kills training at random moments and resumes it until it is done; damages its files and recorded data. `make torture`."""

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

COMPARED_FILES = ("evaluations.csv", "model.json", "model.safetensors", "best.json", "best.safetensors")
"""Files of a finished run whose bytes must be the same."""


def command_of(*arguments: str) -> list[str]:
    """The command that runs gemrl in a separate process."""
    return [sys.executable, "-m", "gemrl", *arguments]


def run_uninterrupted(folder: Path, *arguments: str) -> None:
    """Trains without interruption."""
    subprocess.run(command_of("train", *arguments, "--run", str(folder)), check=True, capture_output=True, env=os.environ)


class Kills(NamedTuple):
    """How often a run was killed, and how many of the kills were during the writing of a file."""

    all: int
    during_writes: int


def run_killed(folder: Path, kills: int, span: int, rng: random.Random, *arguments: str) -> Kills:
    """Trains with up to `kills` kills, then resumes to the end.

    Every second kill is during the writing of a file, the others after up to `span` steps, however fast the machine is.
    """
    done = during_writes = 0
    while done < kills:
        started = (folder / "run.json").exists()
        command = command_of("resume", str(folder)) if started else command_of("train", *arguments, "--run", str(folder))
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
    subprocess.run(command_of("resume", str(folder)), check=True, capture_output=True, env=os.environ)
    return Kills(done, during_writes)


def _wait_for_steps(folder: Path, process: subprocess.Popen[bytes], steps: int, seconds: float) -> bool:
    """Waits until its newest checkpoint is this many steps later, and some seconds more; returns False (not writing)."""
    target = _newest(folder) + steps
    while process.poll() is None and _newest(folder) < target:
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return False


def _newest(folder: Path) -> int:
    """The step of the newest checkpoint, or 0."""
    return max((int(path.name) for path in folder.glob("checkpoints/[0-9]*") if path.name.isdecimal()), default=0)


def _wait_for_writes(folder: Path, process: subprocess.Popen[bytes], number: int) -> bool:
    """Waits until it writes a file for the n-th time; returns False if it ends before that."""
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
    """Whether a file is being written."""
    return any(any(path.glob(f"{TEMPORARY}*")) for path in (folder, folder / "checkpoints"))


def differences(one: Path, other: Path) -> list[str]:
    """The names of files in which two finished runs differ."""
    checkpoints = [max((folder / "checkpoints").glob("[0-9]*")) for folder in (one, other)]
    differ = [name for name in COMPARED_FILES if (one / name).read_bytes() != (other / name).read_bytes()]
    if "evaluations.csv" in differ:  # an extended run has one evaluation more, which may be its best
        differ = [name for name in differ if not name.startswith("best.")]
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
"""Options of the runs that are killed, by environment. Sticky actions test that the random state of a game is restored."""
KILLED["MinAtar/Breakout-v1"] += ["--set", "gradient_steps=2", "target_update_interval=400"]
KILLED["ALE/MsPacman-v5"] += [
    "train_freq=20",
    "batch_size=8",
    "target_update_interval=400",
    "buffer_size=400",
]  # the ring of images wraps

COMMON = ["--eval-every", "500", "--eval-episodes", "1", "--threads", "1"]
COMMON += ["--set", "learning_starts=300", "gradient_steps=20", "net_arch=(64, 64)", "buffer_size=1500"]


def kill_often(workplace: Path, env: str, options: list[str], kills: int) -> str:
    """Kills runs with increasing seeds until there were enough kills; returns a row of the table."""
    done, during, differ = 0, 0, set()
    for seed in itertools.count():
        folders = [workplace / f"{env.replace('/', '-')}-{seed}-{kind}" for kind in ("uninterrupted", "killed")]
        arguments = [env, "--seed", str(seed), *COMMON, *options]
        run_uninterrupted(folders[0], *arguments)
        found = run_killed(folders[1], kills - done, int(options[1]) // 8, random.Random(seed), *arguments)
        done, during = done + found.all, during + found.during_writes
        differ |= set(differences(*folders))
        if done >= kills:
            break
    outcome = "same bytes" if not differ else f"DIFFERENT: {', '.join(sorted(differ))}"
    return f"| SIGKILL, gem on {env}, {seed + 1} run(s) | {done}, {during} of them during a write | {outcome} |"


def full_disk(workplace: Path) -> str:
    """Trains on a file system of 1.2 MB until it is full, enlarges it and resumes; returns a summary."""
    small = workplace / "small"
    small.mkdir()
    mounting = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(small)], capture_output=True, check=False)
    if mounting.returncode:
        return "not run: needs permission to mount a file system"
    try:
        arguments = ["Pendulum-v1", *KILLED["Pendulum-v1"], *COMMON]
        ended = subprocess.run(
            command_of("train", *arguments, "--run", str(small / "run")), capture_output=True, text=True, check=False
        )
        assert ended.returncode == 1, ended
        assert "No space left on device; its last checkpoint is kept" in ended.stderr, ended
        kept = len(list((small / "run" / "checkpoints").iterdir()))
        assert kept, "no checkpoint to resume from"
        subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
        subprocess.run(command_of("resume", str(small / "run")), check=True, capture_output=True)
        run_uninterrupted(workplace / "roomy", *arguments)
        assert differences(workplace / "roomy", small / "run") == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
    return f"ended with one line and exit code 1; {kept} checkpoints were kept, and the resumed run has the same bytes"


def main() -> None:
    """Attacks and damages files, kills runs, fills a disk, and writes the outcome to docs/reliability.md."""
    import argparse
    import tempfile

    from tests.attacks import attack_often
    from tests.data_fuzz import damage_often
    from tests.fuzz import Fuzzer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50 * len(KILLED))
    parser.add_argument("--damages", type=int, default=10_000)
    parser.add_argument("--starts", type=int, default=5_000)
    parser.add_argument("--recordings", type=int, default=2_000)
    options = parser.parse_args()
    lines = ["| test | number | outcome |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        workplace = Path(name)
        row, failures = attack_often(workplace / "strangers", options.starts)  # first: it forks, and JAX must not run yet
        print("\n".join([row, *failures]), flush=True)
        for env, env_options in KILLED.items():
            lines.append(kill_often(workplace, env, env_options, options.kills // len(KILLED)))
            print(lines[-1], flush=True)
        folders = sorted(workplace.glob("*-uninterrupted"))
        fuzzer = Fuzzer(max((folders[0] / "checkpoints").iterdir()), workplace, seed=1)
        for number in range(options.damages):
            fuzzer.hostile_damage() if number % 4 == 0 else fuzzer.random_damage()
        outcome = f"{fuzzer.rejected:,} rejected with an error, {fuzzer.loaded:,} harmless and loaded"
        lines.append(f"| damaged checkpoint files | {options.damages:,} | {outcome} |")
        lines.append(row)
        recorded, wrong = damage_often(workplace / "recordings", options.recordings)
        print("\n".join([recorded, *wrong]), flush=True)
        lines.append(recorded)
        lines.append(f"| full disk (tmpfs) | 1 | {full_disk(workplace)} |")
        os.chdir(ROOT)
    found = versions()
    setup = f"Python {found['python']}, JAX {found['jax']}, gymnasium {found['gymnasium']}, MuJoCo {found['mujoco']}"
    replace_between(ROOT / "docs" / "reliability.md", "torture", "\n".join([*lines, "", setup]))
    print("\n".join(lines[2:]))
    sys.exit(1 if failures or wrong else 0)


def replace_between(page: Path, mark: str, text: str) -> None:
    """Writes `text` between the comments <!-- mark --> and <!-- /mark --> of a page."""
    before, _, rest = page.read_text().partition(f"<!-- {mark} -->\n")
    after = rest.partition(f"<!-- /{mark} -->")[2]
    page.write_text(f"{before}<!-- {mark} -->\n{text}\n<!-- /{mark} -->{after}")


if __name__ == "__main__":
    main()

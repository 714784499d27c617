"""Thousands of starts of the command line on files that a stranger has altered, part of `make torture`.

Each start goes through the entry point of the command, in a process forked from one that has imported everything. It must end
within a minute and 2 GB, write nothing outside its folders, and show no traceback. A run that reaches its first round of
training counts as accepted and is stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from unittest import mock

from gemrl.cli import entry, main
from tests.alterations import ANY_FILE, BY_ENDING

SECONDS, RESIDENT = 60.0, 2 << 30
"""What a start may take: seconds, and bytes of resident memory."""

ACCEPTED = 77
"""The exit code of a start that reached its first round of training."""

SMALL = ("--set", "net_arch=(8,)", "learning_starts=100", "buffer_size=300", "gradient_steps=2", "batch_size=8", "train_freq=50")

COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report", "{run}"),
    "table": ("report", "{run}", "--table"),
    "export": ("export", "{run}", "--out", "{out}"),
    "deploy": ("export", "{run}", "--format", "numpy", "--out", "{out}"),
    "resume": ("resume", "{run}", "--steps", "1000"),
    "evaluate": ("evaluate", "{run}", "--episodes", "1"),
    "memory": ("memory", "{run}"),
    "train": ("train", "Pendulum-v1", "--run", "{run}", "--steps", "400", *SMALL),
    "study": ("study", "{study}/own.toml", "--out", "{study}", "--dry-run"),
    "study report": ("report", "{study}"),
    "study export": ("export", "{study}", "--out", "{out}"),
    "study goes on": ("study", "{study}/own.toml", "--out", "{study}"),
}
"""The commands that are started, by name. Those of a study have a folder of finished runs."""


_RESULTS = ("run.json", "evaluations.csv", "progress.csv", "study.json")
READ = {
    "report": _RESULTS,
    "table": _RESULTS,
    "export": _RESULTS,
    "resume": ("run.json", "model.json", "state.json", "evaluations.csv", "progress.csv"),
    "deploy": ("run.json", "model.json"),
    "evaluate": ("run.json", "model.json"),
    "memory": ("run.json", "model.json", "state.json"),
    "train": ("run.json", "model.json"),
    "study": ("own.toml", "run.json", "finished.json", "progress.csv"),
    "goes on": ("own.toml", "study.json", "run.json", "finished.json"),
}
"""The files that a command reads, by the end of its name."""


class Outcome(NamedTuple):
    """How a start ended."""

    code: int
    seconds: float
    resident: int
    output: str


def files_of(folder: Path, command: str) -> list[Path]:
    """The files that an attack on a command alters."""
    names = next(names for end, names in READ.items() if command.endswith(end))
    return sorted(file for file in folder.rglob("*") if file.name in names and file.is_file())


def fingerprint(folder: Path) -> dict[str, str]:
    """What is in a folder, by path: the kind of each file, and the content of regular ones."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = path.lstat()
        regular = stat.S_ISREG(kind.st_mode)
        found[str(path)] = f"{kind.st_mode:o} {hashlib.sha256(path.read_bytes()).hexdigest() if regular else ''}"
    return found


def stop_at_first_round() -> None:
    """Makes agents end the process where they would train, and a study where it would start a run."""
    from gemrl.agents.off_policy import OffPolicyAgent
    from gemrl.agents.tabular import TabularAgent
    from gemrl.experiments.executors.local import Local

    def accepted(*_: Any) -> NoReturn:
        os._exit(ACCEPTED)

    for agent in (OffPolicyAgent, TabularAgent):
        agent.learn = accepted  # type: ignore[assignment, method-assign]
    Local.start = accepted  # type: ignore[assignment, method-assign]


def start(arguments: list[str], folder: Path, log: Path) -> Outcome:
    """Starts the command in a forked process and waits for its end, or ends it when it takes too long or too much."""
    began = time.monotonic()
    child = os.fork()
    if not child:
        _run(arguments, folder, log)
    reason, status, usage = "", 0, None
    while usage is None:
        ended, status, found = os.wait4(child, os.WNOHANG)
        if ended:
            usage = found
        elif time.monotonic() - began > SECONDS or _resident(child) > RESIDENT:
            reason = "HANGS" if time.monotonic() - began > SECONDS else "TAKES TOO MUCH MEMORY"
            os.kill(child, signal.SIGKILL)
            usage = os.wait4(child, 0)[2]
        else:
            time.sleep(0.01)
    code = os.waitstatus_to_exitcode(status) if not reason else -9
    return Outcome(code, time.monotonic() - began, usage.ru_maxrss * 1024, log.read_text(errors="replace") + reason)


def _run(arguments: list[str], folder: Path, log: Path) -> NoReturn:
    """What the forked process does: it runs the command and exits."""
    try:
        null, output = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(null, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.setsid()  # no terminal
        os.chdir(folder)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
        sys.argv = ["gemrl", *arguments]
        stop_at_first_round()
        entry.script()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _resident(process: int) -> int:
    """The resident memory of a process in bytes; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


class Attacker:
    """Alters copies of a run and of a study, and starts commands on them."""

    def __init__(self, run: Path, study: Path, workplace: Path, seed: int) -> None:
        self._originals = {"run": run, "study": study}
        self._workplace, self._rng = workplace / "attacks", random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.slowest, self.largest = 0.0, 0

    def check_unaltered(self) -> None:
        """Every command must work on files that nobody has altered."""
        for command in COMMANDS:
            folder, _ = self._copy(command)
            if command == "train":
                self._forget(folder)
            outcome = self._start(command, folder)
            expected = ACCEPTED if command in ("resume", "train") else 0
            assert outcome.code == expected, f"{command} on unaltered files: {outcome}"

    def _copy(self, command: str) -> tuple[Path, Path]:
        """A copy of what a command is started on, and a folder outside with files that must not change."""
        which = "study" if "{study}" in " ".join(COMMANDS[command]) else "run"
        shutil.rmtree(self._workplace, ignore_errors=True)
        folder, outside = self._workplace / which, self._workplace / "outside"
        for path in (outside / "folder", self._workplace / "cwd"):
            path.mkdir(parents=True)
        shutil.copytree(self._originals[which], folder)
        (outside / "precious").write_text("precious\n")
        (outside / "folder" / "precious").write_text("precious\n")
        return folder, outside

    def _start(self, command: str, folder: Path) -> Outcome:
        words = {"{run}": folder, "{study}": folder, "{out}": self._workplace / "out"}
        arguments = [_filled(word, words) for word in COMMANDS[command]]
        return start(arguments, self._workplace / "cwd", self._workplace / "log")

    def attack(self) -> None:
        """One start of a random command after a random attack."""
        rng = self._rng
        command = rng.choices(list(COMMANDS), [0.3 if name == "memory" else 1 for name in COMMANDS])[0]  # it draws slowly
        folder, outside = self._copy(command)
        file = rng.choice(files_of(folder, command))
        if command == "train" and rng.random() < 0.7:
            self._forget(folder)  # a folder that is free, but for what a stranger has left there
            file = folder / rng.choice(("evaluations.csv", "progress.csv", "learning_curve.png", ".lock", "model.json"))
            file.touch()
        chosen = rng.choice(ANY_FILE if rng.random() < 0.5 else BY_ENDING.get(file.suffix, ANY_FILE))
        with contextlib.suppress(ValueError, IndexError):  # an empty file has no values
            chosen.alter(file, rng, outside)
        if rng.random() < 0.1:
            self._link_a_folder(folder, outside)
        name = f"{command}: {chosen.name} in {file.relative_to(self._workplace)}"
        self._judge(name, command, folder, outside)

    def _forget(self, folder: Path) -> None:
        for name in ("run.json", "evaluations.csv", "progress.csv", "learning_curve.png", ".lock", "model.json"):
            (folder / name).unlink(missing_ok=True)
        shutil.rmtree(folder / "checkpoints")

    def _link_a_folder(self, folder: Path, outside: Path) -> None:
        """Replaces a folder inside by a link to one outside with the same content, or adds such a link."""
        inner = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
        target = self._rng.choice([*inner, folder / "tensorboard", folder / "wandb", folder / "videos", folder / "logs"])
        if target.is_dir():
            shutil.move(target, outside / "moved")
        (outside / "moved").mkdir(exist_ok=True)
        target.symlink_to(outside / "moved")

    def _judge(self, name: str, command: str, folder: Path, outside: Path) -> None:
        """Starts the command, and notes what it did that it must not do."""
        cwd = self._workplace / "cwd"
        before = fingerprint(outside) | fingerprint(cwd)
        outcome = self._start(command, folder)
        self.slowest, self.largest = max(self.slowest, outcome.seconds), max(self.largest, outcome.resident)
        problems = []
        if outcome.code not in (0, 1, 2, ACCEPTED):
            problems.append(f"ended with {outcome.code}")
        last = outcome.output.strip().rpartition("\n")[2]
        if outcome.code in (1, 2) and not last.startswith("gemrl: "):
            problems.append("gave no reason")
        if outcome.resident > RESIDENT:
            problems.append(f"took {outcome.resident / 1e9:.1f} GB")
        if "Traceback" in outcome.output:
            problems.append("showed a traceback")
        if "\x1b" in outcome.output or "\0" in outcome.output:
            problems.append("printed an escape sequence")
        after = fingerprint(outside) | fingerprint(cwd)
        if after != before:
            problems.append(f"wrote outside: {sorted(set(after.items()) ^ set(before.items()))[:2]}")
        strangers = {path.name for path in self._workplace.iterdir()} - {"outside", "cwd", "out", "log", folder.name}
        if strangers:
            problems.append(f"wrote outside: {strangers}")
        kind = {0: "done", ACCEPTED: "accepted"}.get(outcome.code, "refused in one line")
        self.counts["FAILED" if problems else kind] += 1
        if problems:
            self.failures.append(f"{name}: {'; '.join(problems)}: {outcome.output[-1500:]}")


def _filled(word: str, words: dict[str, Path]) -> str:
    for mark, path in words.items():
        word = word.replace(mark, str(path))
    return word


def prepare(workplace: Path) -> tuple[Path, Path]:
    """A small unfinished run with checkpoints, and the folder of a small study that is done.

    Other processes make them: JAX starts threads, and a process with threads must not be forked.
    """
    run, study = workplace / "attacked-run", workplace / "attacked-study"
    often = ("--eval-every", "100", "--eval-episodes", "1", "--checkpoint-every", "100")
    _gemrl("train", "Pendulum-v1", "--steps", "300", "--run", str(run), *often, *SMALL)
    study.mkdir()
    lines = ['title = "Own"', 'algos = ["gem-tabular"]', 'envs = ["FrozenLake-v1"]', "seeds = [0, 1]", "steps = 200"]
    lines += ["eval_every = 100", "eval_episodes = 1", 'settings = ["learning_starts=50"]', 'env_args = ["is_slippery=False"]']
    (study / "own.toml").write_text("\n".join(lines))
    _gemrl("study", str(study / "own.toml"), "--out", str(study), "--results-only")
    return run, study


def _gemrl(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "gemrl", *arguments], check=True, capture_output=True, env=os.environ)


def attack_often(workplace: Path, starts: int, seed: int = 1) -> tuple[str, list[str]]:
    """Attacks this many times; returns a row of the table of docs/reliability.md, and what failed."""
    (workplace / "home").mkdir(parents=True)
    own = {name: str(workplace / "home") for name in ("HOME", "MPLCONFIGDIR", "JAX_COMPILATION_CACHE_DIR")}
    own |= {"NPROC": "1", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # every program is kept, so the cache is warm
    with mock.patch.dict(os.environ, own):
        return _attack_often(workplace, starts, seed)


def _attack_often(workplace: Path, starts: int, seed: int) -> tuple[str, list[str]]:
    run, study = prepare(workplace)
    # Everything that a command imports, so that a forked process starts at once.
    for module in (
        *(f"gemrl.cli.{name}" for name in main.COMMANDS),
        "gemrl.experiments.run",
        "matplotlib.pyplot",
        "plotly.offline",
    ):
        importlib.import_module(module)
    attacker = Attacker(run, study, workplace, seed)
    attacker.check_unaltered()
    for _ in range(starts):
        attacker.attack()
    counts = ", ".join(f"{number:,} {kind}" for kind, number in attacker.counts.most_common())
    worst = f"at most {attacker.slowest:.0f} s and {attacker.largest / 1e9:.1f} GB"
    return f"| starts on files altered by a stranger | {starts:,} | {counts}; {worst} |", attacker.failures

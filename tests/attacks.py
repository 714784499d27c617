"""Thousands of starts of the command line on files that a stranger has altered, part of `make torture`.

Each start goes through the entry point of the command, in a process forked from one that has imported everything. It must end
within a minute and 2 GB, write nothing outside its folders, and show no traceback. A run that reaches its first round of
training counts as accepted and is stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from gemrl.cli import entry, main
from gemrl.core.files import write_sealed
from tests.fuzz import DAMAGE, _positions, sign

SECONDS, RESIDENT = 60.0, 2 << 30
"""What a start may take: seconds, and bytes of resident memory."""

ACCEPTED = 77
"""The exit code of a start that reached its first round of training."""

DEEP = 100_000
"""Brackets in a deeply nested file."""

ESCAPE = "\x1b]0;owned\x07\x1b[31m"

NASTY: tuple[Any, ...] = (
    *(10**18, 2**63, 2**31, -1, 0, 1e308, -1e308, 10**400, float("nan"), float("inf")),
    *("", "..", "../x", "/etc/passwd", "a\0b", "\ud800", ESCAPE, "x" * 300, "x" * 100_000, "9" * 400, "../" * 50 + "tmp/x"),
    *(None, True, False, [], {}, [1], [[1]], {"a": 1}, [10**9, 10**9], [None], {"": None}, {"..": {}}),
    *("gem", "td3", "Pendulum-v1", "CartPole-v1", "nowhere:Env-v0", "Twin(depth=5)", "Planned(planner=Twin(depth=10**9))"),
)
"""Values that replace one in a JSON file."""

CELLS = ("", "x", "nan", "inf", "-inf", "1e400", "9" * 400, "-1", "0", "1e308", "\0", "\x1b[31m", '"', "a" * 200_000, "1_0", "½")
"""Fields that replace one in a CSV file."""

TOML_VALUES = (
    *("-1", "0", "9" * 400, "0x" + "f" * 5000, "1e308", "nan", '"x"', '""', '".."', '"a\\u0000b"', '"\\u001b[31m"', "[]", "[[1]]"),
    *("{}", "true", '["gem"]', '["gem", "gem"]', '[""]', "[-1]", f"[{10**30}]", "[" * 2000 + "]" * 2000, '"""\n"""', "1979-05-27"),
)
"""Values that replace one in a TOML file."""


class Attack(NamedTuple):
    """An alteration of one file of a folder: its name, for the summary, and what it does."""

    name: str
    alter: Callable[[Path, random.Random, Path], None]


def nasty_json(file: Path, rng: random.Random, outside: Path) -> None:
    """One to three values of a JSON file replaced, removed or added; checksums of a model or checkpoint are made to match."""
    content = json.loads(file.read_text())
    content.pop("seal", None)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_positions(content))
        owner, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.1 and isinstance(owner, dict):
            del owner[key]
        elif kind < 0.2 and isinstance(owner, dict):
            owner[rng.choice(("", "..", "a\0b", ESCAPE, "x" * 5000, "extra"))] = rng.choice(NASTY)
        else:
            owner[key] = rng.choice(NASTY)
    file.write_text(json.dumps(content))
    with contextlib.suppress(Exception):  # it may be too damaged for that
        if file.name == "finished.json":
            write_sealed(file, content)
        elif file.name in ("model.json", "state.json"):
            sign(file.parent)


def nested(file: Path, rng: random.Random, outside: Path) -> None:
    """A file of brackets only, or with a deeply nested value."""
    deep = rng.choice((b"[", b'{"a":')) * DEEP
    text = file.read_bytes()
    inside = text.replace(b"{", b'{"deep": ' + b"[" * 900 + b"]" * 900 + b",", 1)
    file.write_bytes(rng.choice((deep, deep + b"1" + b"]" * DEEP, inside)))


def huge(file: Path, rng: random.Random, outside: Path) -> None:
    """A file of a gigabyte without blocks on the disk, or of millions of small values."""
    if rng.random() < 0.5:
        with file.open("r+b") as opened:
            opened.truncate(1 << 30)
    else:
        file.write_bytes(rng.choice((b'{"a":[' + b"[]," * 2_000_000 + b"[]]}", b"1\n" * 4_000_000, b"," * 7_000_000)))


def damaged(file: Path, rng: random.Random, outside: Path) -> None:
    """Flipped bits, a truncated file, noise, a pickle."""
    data = file.read_bytes() or b"x"
    file.write_bytes(rng.choice(DAMAGE)(data, rng))


def linked(file: Path, rng: random.Random, outside: Path) -> None:
    """The file, or its folder, is a link to something outside."""
    target = rng.choice(("precious", "precious", "folder", "missing", "file", "itself"))
    if target == "file":
        shutil.copy(file, outside / "file")
    file.unlink()
    file.symlink_to(file if target == "itself" else outside / target)


def hard_linked(file: Path, rng: random.Random, outside: Path) -> None:
    """The file is a hard link to a file outside with the same content."""
    shutil.copy(file, outside / "file")
    file.unlink()
    os.link(outside / "file", file)


def special(file: Path, rng: random.Random, outside: Path) -> None:
    """The file is a FIFO, a socket-like folder, or a device."""
    file.unlink()
    kind = rng.choice(("fifo", "fifo", "folder", "/dev/zero", "/dev/tty", "/dev/urandom", "/dev/full"))
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        number = os.stat(kind).st_rdev if os.path.exists(kind) else os.makedev(1, 5)
        try:
            os.mknod(file, 0o666 | stat.S_IFCHR, number)
        except PermissionError:
            file.symlink_to(kind)


def nasty_csv(file: Path, rng: random.Random, outside: Path) -> None:
    """Fields and lines of a CSV file replaced, removed or repeated."""
    rows = [line.split(",") for line in file.read_text().splitlines()]
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(rows))
        kind = rng.random()
        if kind < 0.6 and rows[at]:
            rows[at][rng.randrange(len(rows[at]))] = rng.choice(CELLS)
        elif kind < 0.7:
            rows[at] = rows[at][: rng.randrange(len(rows[at]) + 1)]
        elif kind < 0.8:
            rows.insert(at, list(rng.choice(rows)))
        elif kind < 0.9:
            rows[at] = rows[at] * 3
        elif len(rows) > 1:
            del rows[at]
    file.write_text("\n".join(",".join(row) for row in rows) + rng.choice(("\n", "")), errors="replace")


def nasty_toml(file: Path, rng: random.Random, outside: Path) -> None:
    """Values of a TOML file replaced, and fields added."""
    lines = file.read_text().splitlines()
    at = rng.randrange(len(lines))
    name = lines[at].partition(" = ")[0]
    extra = ("a." * 30_000 + "a = 1", "[a" + ".a" * 30_000 + "]", "x = " + "{a=" * 1000 + "1" + "}" * 1000, 'evil = "x"', "[" * 60_000)
    lines[at] = rng.choice(extra) if rng.random() < 0.2 else f"{name} = {rng.choice(TOML_VALUES)}"
    file.write_text("\n".join(lines))


def flagged(file: Path, rng: random.Random, outside: Path) -> None:
    """Flags of the compiler that write files or end the process, and other fields that could reach outside."""
    content = json.loads(file.read_text())
    content |= rng.choice(
        (
            {"xla_flags": f"--xla_dump_to={outside}/dump"},
            {"xla_flags": "--no_such_flag"},
            {"threads": 10**6},
            {"threads": -1},
            {"track": "../x"},
            {"track": {"to": "wandb", "id": "../../x"}},
            {"track": {"to": "nobody", "id": "x"}},
            {"tensorboard": True},
            {"algo": ".."},
            {"algo": f"../../{outside.name}"},
            {"env": ESCAPE},
            {"env": "../../x"},
            {"steps": 10**400},
            {"n_envs": 10**7},
            {"seed": -1},
        )
    )
    file.write_text(json.dumps(content))


ANY_FILE = (
    Attack("nested", nested),
    Attack("huge", huge),
    Attack("damaged", damaged),
    Attack("link", linked),
    Attack("hard link", hard_linked),
    Attack("special file", special),
)

BY_ENDING = {
    ".json": (Attack("values", nasty_json), Attack("values", nasty_json), Attack("flags", flagged)),
    ".csv": (Attack("values", nasty_csv), Attack("values", nasty_csv)),
    ".toml": (Attack("values", nasty_toml), Attack("values", nasty_toml)),
}
"""Attacks on one kind of file, which are as frequent as all others together."""

SMALL = ("--set", "net_arch=(8,)", "learning_starts=100", "buffer_size=300", "gradient_steps=2", "batch_size=8", "train_freq=50")

COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report", "{run}"),
    "table": ("report", "{run}", "--table"),
    "export": ("export", "{run}", "--out", "{out}"),
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


class Outcome(NamedTuple):
    """How a start ended."""

    code: int
    seconds: float
    resident: int
    output: str


def files_of(folder: Path, command: str) -> list[Path]:
    """The files that an attack on a command alters."""
    names = {"run.json", "study.json", "model.json", "state.json", "finished.json", "evaluations.csv", "progress.csv"}
    names |= {"own.toml"} if command in ("study", "study goes on") else set()
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

    def attack(self) -> None:
        """One start of a random command after a random attack."""
        rng = self._rng
        command = rng.choice(list(COMMANDS))
        which = "study" if "{study}" in " ".join(COMMANDS[command]) else "run"
        shutil.rmtree(self._workplace, ignore_errors=True)
        folder, outside, cwd = self._workplace / which, self._workplace / "outside", self._workplace / "cwd"
        for path in (outside / "folder", cwd):
            path.mkdir(parents=True)
        shutil.copytree(self._originals[which], folder)
        (outside / "precious").write_text("precious\n")
        (outside / "folder" / "precious").write_text("precious\n")
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
        self._judge(name, command, folder, outside, cwd)

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

    def _judge(self, name: str, command: str, folder: Path, outside: Path, cwd: Path) -> None:
        out = self._workplace / "out"
        words = {"{run}": folder, "{study}": folder, "{out}": out}
        arguments = [_filled(word, words) for word in COMMANDS[command]]
        before = fingerprint(outside) | fingerprint(cwd)
        outcome = start(arguments, cwd, self._workplace / "log")
        self.slowest, self.largest = max(self.slowest, outcome.seconds), max(self.largest, outcome.resident)
        problems = []
        if outcome.code not in (0, 1, 2, ACCEPTED):
            problems.append(f"ended with {outcome.code}")
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
    for name in ("HOME", "MPLCONFIGDIR"):
        os.environ[name] = str(workplace / "home")
    run, study = prepare(workplace)
    # Everything that a command imports, so that a forked process starts at once.
    for module in (*(f"gemrl.cli.{name}" for name in main.COMMANDS), "gemrl.experiments.run", "matplotlib.pyplot", "plotly.offline"):
        importlib.import_module(module)
    stop_at_first_round()
    attacker = Attacker(run, study, workplace, seed)
    for _ in range(starts):
        attacker.attack()
    counts = ", ".join(f"{number:,} {kind}" for kind, number in attacker.counts.most_common())
    worst = f"at most {attacker.slowest:.0f} s and {attacker.largest / 1e9:.1f} GB"
    return f"| starts on files altered by a stranger | {starts:,} | {counts}; {worst} |", attacker.failures

"""The results of foreign tests: which failures are known, and a table of all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Result:
    """The outcome of one test."""

    file: str
    test: str
    outcome: str
    error: str

    @property
    def function(self) -> str:
        """The name of the test without its parameters."""
        return self.test.partition("[")[0]


@dataclass(frozen=True)
class Reason:
    """Why tests fail: a pattern of their names and one of their errors, and whether gemrl claims to have what they test."""

    test: str
    error: str
    text: str
    applicable: bool = False


REASONS = (
    Reason("", "MultiInputPolicy", "Dict observations are not supported"),
    Reason("", "not Multi(Discrete|Binary)", "MultiDiscrete and MultiBinary observations have to be flattened"),
    Reason("test_infinite_horizon", "needs a Box of observations", "Discrete observations need Discrete actions"),
    Reason(
        "test_action_spaces",
        "UnsupportedSpace",
        "a wrong action space is refused, with UnsupportedSpace instead of AssertionError",
        True,
    ),
    Reason("test_cnn", "VecTransposeImage", "images are transposed by the model, not by a wrapper of the environment"),
    Reason(
        "",
        "policy_kwargs (features_extractor_class|normalize_images|share_features)",
        "networks are not chosen by PyTorch modules",
    ),
    Reason("", "policy_kwargs features_extractor_kwargs", "Dict observations are not supported"),
    Reason("", "policy_kwargs optimizer", "the optimizer is Adam"),
    Reason("", "policy_kwargs log_std_init|'?use_sde'?", "there is no gSDE"),
    Reason("", "net_arch must be a tuple", "actor and critics have the same widths"),
    Reason("", "OrnsteinUhlenbeck", "exploration noise is Gaussian"),
    Reason("", "exploration_noise is a field of other", "sac explores by its policy alone"),
    Reason("", "depth is a field of other|here it is depth", "sac has one-step targets"),
    Reason("", "'ent_coef'", "the temperature is always learned"),
    Reason("", "not \\(1, 'episode'\\)", "train_freq is a number of steps"),
    Reason("", "gradient_steps must be a whole number of at least 1, not -1", "gradient_steps is a number"),
    Reason("", "'stats_window_size'", "statistics are over 100 episodes"),
    Reason("", "'(replay_buffer_\\w+|optimize_memory_usage)'", "the memory is part of the algorithm"),
    Reason("", "no attribute '(save_)?replay_buffer'", "the memory is `memory`, saved by `save(path, memory=True)`"),
    Reason("test_checkpoint_additional_info", "assert False", "the memory is `memory`, saved by `save(path, memory=True)`"),
    Reason("", "no attribute '_last_obs'", "looks into a private attribute"),
    Reason("", "no attribute '(q_net|log_ent_coef)'|SimpleNamespace' object has no", "looks into PyTorch modules"),
    Reason("test_predict", "isinstance\\(np.int64", "one discrete action is a NumPy integer, not an array without axes", True),
    Reason("", "'numpy.ndarray' object has no attribute 'items'", "parameters are arrays by name, not dictionaries of PyTorch"),
    Reason("", "argument 'exclude'", "`save` always saves everything that is trained"),
    Reason("", "'exploration_rate' of", "`predict` never explores, and the exploration rate cannot be set"),
    Reason("", "FileNotFoundError.*\\.zip'", "removes its zip file at the end; gemrl writes .safetensors and .json"),
    Reason("test_warn_dqn_multi_env", "DID NOT WARN", "gemrl warns in `learn`, not in the constructor", True),
    Reason("test_fps_logger", "1000 / 10", "in 100 steps of 1 ms, compiling takes longest", True),
)
"""All known reasons; the first that matches counts."""


def reason_of(result: Result) -> Reason | None:
    """The known reason of a failure."""
    line = " ".join(result.error.split())
    return next((one for one in REASONS if re.search(one.test, result.test) and re.search(one.error, line)), None)


def verdict(result: Result) -> str:
    """The column in which a result counts."""
    if result.outcome != "failed":
        return result.outcome
    reason = reason_of(result)
    return "failed" if reason is None or reason.applicable else "not applicable"


COLUMNS = ("passed", "failed", "not applicable", "skipped")


def markdown(results: Iterable[Result]) -> str:
    """A table with a row for each test function, its counts and the reasons of its failures."""
    found = sorted(results, key=lambda result: (result.file, result.function))
    lines = [f"| test | {' | '.join(COLUMNS)} | reasons |", "|---" * (len(COLUMNS) + 2) + "|"]
    for (file, function), group in groupby(found, lambda result: (result.file, result.function)):
        members = list(group)
        reasons = {_text(result) for result in members if result.outcome == "failed"}
        lines.append(_row(f"`{file}::{function}`", Counter(map(verdict, members)), "; ".join(sorted(reasons))))
    return "\n".join([*lines, _row(f"**{len(found)} tests**", Counter(map(verdict, found)), ""), ""])


def _row(title: str, counts: Counter[str], reasons: str) -> str:
    """A row of the table; zeros are left out."""
    return f"| {title} | {' | '.join(str(counts[name] or '') for name in COLUMNS)} | {reasons} |"


def _text(result: Result) -> str:
    """The reason of a failure as text."""
    reason = reason_of(result)
    return reason.text if reason else "unknown"

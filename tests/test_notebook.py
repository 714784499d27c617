"""The progress bar in a notebook, as a real kernel shows it."""

from __future__ import annotations

import re

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

CELL = """
import gemrl
from gemrl.training.models import MODELS
model = MODELS["q-learning"]("FrozenLake-v1", seed=0)
model.learn({steps}, progress_bar=True, eval_env="FrozenLake-v1", eval_every=200, eval_episodes=2{more})
"""


def outputs(steps: int, more: str = "") -> list[str]:
    """The texts that a cell shows in the end."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL.format(steps=steps, more=more))])
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    found = [output for output in notebook.cells[0].outputs if output.output_type == "display_data"]
    return [output.data.get("text/html", "") for output in found]


def test_the_bar_replaces_itself_and_ends_full() -> None:
    (bar,) = [text for text in outputs(400) if "<progress" in text]
    assert '<progress value="400" max="400"></progress>' in bar
    assert re.search(r"400/400  [\d,]+/s  0:00:00 left  return [\d.]+ at step 400", bar), bar
    assert bar.startswith("<b>q-learning</b>")


def test_the_bar_stays_where_a_training_stops() -> None:
    """A callback stops the training; the bar shows the step, and every evaluation has a line."""
    shown = outputs(400, ", callback=lambda local, _: local['self'].num_timesteps < 250")
    (bar,) = [text for text in shown if "<progress" in text]
    assert '<progress value="250" max="400"></progress>' in bar
    assert sum("estimation error" in text for text in shown) == 1

"""README and docs: commands parse, links lead somewhere, Python compiles, and tables agree with the files they come from."""

from __future__ import annotations

import ast
import csv
import functools
import json
import re
import shlex
from pathlib import Path
from statistics import mean

import pytest

from gemrl.cli.main import parse

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(kind: str) -> list[tuple[Path, str]]:
    return [(page, text) for page in PAGES for found, text in BLOCK.findall(page.read_text()) if found == kind]


def commands() -> list[tuple[str, list[str]]]:
    """Every `gemrl ...` in a block for the shell, without comments, pipes and redirections."""
    found = []
    for page, text in blocks("sh"):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["gemrl"] and "$" not in line:
                ends = [index for index, word in enumerate(words) if word in ("&", "|", ">", "&&")]
                found.append((f"{name(page)}: {line}", words[1 : ends[0] if ends else None]))
    return found


def test_there_are_commands_to_check() -> None:
    assert len(commands()) > 30


@pytest.mark.parametrize(("line", "words"), commands(), ids=[line for line, _ in commands()])
def test_a_documented_command_parses(line: str, words: list[str]) -> None:
    assert callable(parse(words).command)


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http:", "https:")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, which are the same on GitHub and in the site."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(("page", "text"), blocks("python"))
def test_documented_python_compiles(page: Path, text: str) -> None:
    ast.parse(text)


NAMED = re.compile(r"`(gemrl/[\w/]+(?:\.py|/))`|(?:^from |^::: |`)(gemrl(?:\.[a-z_]+){2,})", re.MULTILINE)
"""Files and folders, and modules of at least two names, that pages name."""


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_modules_exist(page: Path) -> None:
    for match in NAMED.finditer(page.read_text()):
        path = match[1] or match[2].replace(".", "/")
        ends = ("", ".py", "/__init__.py")
        assert any((ROOT / (path + end)).exists() for end in ends), match[0]


def test_the_readme_is_short() -> None:
    text = re.sub(r"<!--.*?-->", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(text.split()) <= 900


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    for cell in cells:
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        ast.parse("".join(cell["source"]))


@functools.cache
def final_returns() -> dict[tuple[str, str, int], list[list[float]]]:
    """By task, algorithm and steps: the last return of each seed, for every folder of runs in results."""
    folders = {path.parents[1] for path in (ROOT / "results").rglob("run.json")}
    found: dict[tuple[str, str, int], list[list[float]]] = {}
    for folder in folders:
        seeds = sorted(folder.glob("*/run.json"))
        description = json.loads(seeds[0].read_text())
        last = [list(csv.DictReader((seed.parent / "evaluations.csv").open()))[-1] for seed in seeds]
        key = (description["env"], description["algo"], int(last[0]["step"]))
        found.setdefault(key, []).append([float(row["return_mean"]) for row in last])
    return found


def expected_rows() -> list[list[str]]:
    """The rows of the tables of expected returns: task, algorithm, steps, mean, each seed."""
    lines = (ROOT / "docs" / "results" / "expected-returns.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [row for row in rows if len(row) == 5 and row[1].startswith("`")]


@pytest.mark.parametrize("row", expected_rows(), ids=lambda row: " ".join(row[:3]))
def test_expected_returns_are_those_in_results(row: list[str]) -> None:
    task, algorithm, steps, middle, each = row
    shown = [float(number.replace(",", "")) for number in each.split(", ")]
    digits = 1 if "." in each else 0
    stored = final_returns()[task, algorithm.strip("`").split()[0], int(steps.replace(",", ""))]
    assert shown in [[round(value, digits) for value in values] for values in stored]
    (values,) = [values for values in stored if [round(value, digits) for value in values] == shown][:1]
    assert float(middle.replace(",", "")) == round(mean(values), digits)


def test_there_are_expected_returns_to_check() -> None:
    assert len(expected_rows()) > 40

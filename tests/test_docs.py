"""README and docs: commands parse, links lead somewhere, and Python compiles."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

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

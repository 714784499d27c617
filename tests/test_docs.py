"""What README and docs say can be typed, followed and compiled."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from gemrl.cli.main import parse

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "results" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def blocks(kind: str) -> list[tuple[Path, str]]:
    return [(page, text) for page in PAGES for found, text in BLOCK.findall(page.read_text()) if found == kind]


def commands() -> list[tuple[str, list[str]]]:
    """Every `gemrl ...` in a block for the shell, without comments, pipes and what follows on."""
    found = []
    for page, text in blocks("sh"):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["gemrl"] and "$" not in line:
                ends = [place for place, word in enumerate(words) if word in ("&", "|", ">", "&&")]
                found.append((f"{page.name}: {line}", words[1 : ends[0] if ends else None]))
    return found


def test_there_are_commands_to_check() -> None:
    assert len(commands()) > 30


@pytest.mark.parametrize(("line", "words"), commands(), ids=[line for line, _ in commands()])
def test_a_documented_command_is_understood(line: str, words: list[str]) -> None:
    assert callable(parse(words).command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http:", "https:")):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    """The headings of a page as links know them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize(("page", "text"), blocks("python"))
def test_documented_python_is_python(page: Path, text: str) -> None:
    ast.parse(text)

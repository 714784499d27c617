"""Pages as blocks (paragraphs, list items, headings, tables), with the marks and the numbers of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MARK = re.compile(r"<!--(?:\s*(?P<kind>numbers|names):(?P<text>.*?)|.*?)-->", re.DOTALL)
"""A comment; one that begins with `numbers:` is a mark, and one with `names:` has names for all marks of its page."""

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|\]\([^)\s]*\)|\[[^\]\n]*\]\(https?:[^)\s]*\)", re.MULTILINE | re.DOTALL)
"""Code, the targets of links, and whole links to other sites."""

NUMBER = re.compile(r"(?<![\w.])(?<![A-Za-z]-)[+-]?\d+(?:,\d{3})*(?:\.\d+)?[kM]?(?!\w|\.\d|,\d{3}|-[a-z])")
"""A number that stands by itself: not a digit of `TD3`, of `v5`, of `5-step` or of a commit."""

ONE = r"\d(?:[\d,.]*\d)?[kM]?"
MANY = rf"{ONE}(?: (?:to|and) {ONE})*"
KINDS = "agent|training|gradient|environment|greedy|deterministic|random|more|other"
THINGS = (
    "steps|episodes|frames|seeds?|runs?|tasks|games|updates?|rounds?|critics|settings|columns|rows|cells|cores?|threads?|"
    "minutes|hours|seconds|GFLOP(?:/s)?|GB|ms"
)
NAMES = "version|Algorithm|Theorem|Python|alpha|gamma|epsilon|tau|k|depth|[Ww]arm-up|minibatches|weight|temperature"
SETTINGS = re.compile(
    "|".join(
        (
            rf"{MANY} (?:(?:{KINDS}) )*(?:{THINGS})\b",
            rf"\b(?:{NAMES})(?: of| is| =)? {ONE}",
            rf"\bevery {ONE}",
            r"\b[Ss]eeds? \d(?:(?:, \d)* (?:and|to) \d)?\b(?!,\d)",
            r"\bp (?:=|is at least) \d\.\d+",
            r"\b95% intervals?",
            r"\d+ x \d+",
            r"\b(\d+)-\1\b",
            rf"{MANY} wide\b",
            r"\d+\.\d+\.\d+",
            r"[(,] ?(?:19|20)\d\d[),;]",
        )
    )
)
"""What is no result: numbers of things, settings with their names, p-values (their rule is in docs/reports.md), sizes of images
and networks, versions, years. Only these need no mark."""


@dataclass(frozen=True)
class Number:
    """A number as it is printed, where it stands, and whether it needs a source."""

    text: str
    line: int
    optional: bool


@dataclass
class Block:
    """A paragraph, list item or heading (one row), or a table (a row for each line), with its marks.

    A row has its line number and its cells without code; those of a table begin with the second, since the first is a name."""

    rows: list[tuple[int, list[str]]]
    names: list[list[str]] = field(default_factory=list)
    """Of a table: all cells of the head and of each row, with code."""
    marks: list[str] = field(default_factory=list)


def blank(match: re.Match[str]) -> str:
    """Spaces in place of a match, so that everything else stays where it is."""
    return re.sub(r"[^\n]", " ", match[0])


def blocks(page: str) -> list[Block]:
    """The blocks of a page in order. A mark belongs to the last block that begins before it, or to the first."""
    plain = MARK.sub(blank, page)
    shown = CODE.sub(blank, plain).splitlines()
    found = [(number, block(number, last, plain.splitlines(), shown)) for number, last in spans(shown)]
    for match in MARK.finditer(page):
        if match["kind"] == "numbers":
            line = page.count("\n", 0, match.start())
            before = [owner for number, owner in found if number <= line] or [found[0][1]]
            before[-1].marks.append(match["text"].strip())
    return [owner for _, owner in found]


def names(page: str) -> dict[str, str]:
    """What the names of a page stand for, which it has in lines `name = other`."""
    lines = [line.strip() for match in MARK.finditer(page) if match["kind"] == "names" for line in match["text"].splitlines()]
    return {name: other for name, sign, other in (line.partition(" = ") for line in lines) if sign}


def spans(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The first line of each block, and the one behind its last."""
    first = None
    for number, line in enumerate([*lines, ""]):
        starts = re.match(r"\s*(?:[-*]|\d+\.) |#", line) is not None
        changes = number > 0 and line.startswith("|") != lines[number - 1].startswith("|")
        if first is not None and (starts or changes or not line.strip()):
            yield first, number
            first = None
        if first is None and line.strip():
            first = number


def block(first: int, last: int, plain: list[str], shown: list[str]) -> Block:
    """The block in these lines."""
    if not shown[first].startswith("|"):
        return Block([(first + 1, ["\n".join(shown[first:last])])])
    rows = [(number + 1, split(shown[number])[1:]) for number in range(first + 2, last)]
    return Block(rows, [split(plain[number]) for number in (first, *range(first + 2, last))])


def split(line: str) -> list[str]:
    """The cells of a line of a table."""
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def numbers(text: str, line: int) -> list[Number]:
    """The numbers of a text that begins in this line of its page; optional are those that are settings."""
    settings = [match.span() for match in SETTINGS.finditer(re.sub(r"\n", " ", text))]
    return [
        Number(match[0], line + text.count("\n", 0, match.start()), any(a <= match.start() < b for a, b in settings))
        for match in NUMBER.finditer(text)
    ]

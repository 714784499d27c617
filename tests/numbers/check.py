"""Checks pages: each paragraph and each cell of a table against its mark.

The mark of a table has a line for a row, as in the table: `| name | items | items |`. `*` is any other row, no name a row
without label, and `...` the same for all columns up to the next. A row is named by its first cell, or by its first few
(`HalfCheetah-v5, gem`). Other lines:

    name: items           the items of all cells of a row, whose name may end in `...`
    name = other          what stands for the name of a row or column in queries; for all marks of a page, such lines
                          are in a comment <!-- names: ... -->
    best in bold          in each row the cell with the highest first number is bold, and no other

In items `{row}` and `{column}` are the names of a cell's row and column, `{name of a column}` is the row's cell there, and
`{name}` what a page says that it stands for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import chain

from tests.numbers.marks import Problem, compare, parsed
from tests.numbers.pages import Block, Number, blocks, names, numbers, split
from tests.numbers.sources import ROOT

PAGES = ["README.md", *sorted(f"docs/results/{path.name}" for path in (ROOT / "docs" / "results").glob("*.md"))]

BOLD, REST, SAME = "best in bold", "*", "..."


def report(page: str) -> list[str]:
    """What is wrong with the numbers of a page of this repository, with file and line."""
    return [f"{page}:{problem.line}: {problem.text}" for problem in problems((ROOT / page).read_text())]


def problems(page: str) -> list[Problem]:
    """What is wrong with the numbers of a page."""
    known = names(page)
    return [problem for block in blocks(page) for problem in check(block, known)]


def check(block: Block, known: dict[str, str]) -> Iterator[Problem]:
    """What is wrong with the numbers of a block, on a page where these names are known."""
    return of_table(block, known) if block.names else of_text(block, known)


def of_text(block: Block, known: dict[str, str]) -> Iterator[Problem]:
    """The problems of a paragraph, list item or heading."""
    line, (text,) = block.rows[0]
    yield from compare(numbers(text, line), fill(";".join(block.marks), known), line)


def plain(label: str) -> str:
    """The name of a row or column: without marks of code and emphasis, and without an explanation after a colon."""
    return re.sub(r"`|\*\*", "", label).partition(": ")[0].strip()


class TableMark:
    """The mark of a table."""

    def __init__(self, text: str, known: dict[str, str]) -> None:
        self.cells: dict[str, list[str]] = {}
        self.rows: dict[str, str] = {}
        self.names = dict(known)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        self.bold = BOLD in lines
        for line in lines:
            name, sign, other = line.partition(" = ")
            if line.startswith("|"):
                label, *cells = split(line)
                self.cells[plain(label)] = cells
            elif sign:
                self.names[plain(name)] = other
            elif line != BOLD:
                label, _, items = line.partition(": ")
                self.rows[plain(label)] = items

    def key(self, row: list[str]) -> str:
        """The name under which the mark has a row."""
        whole = [", ".join(map(plain, row[:count])) for count in range(len(row), 0, -1)]
        short = [key for key in self.rows if key.endswith(SAME) and whole[-1].startswith(key.removesuffix(SAME))]
        return next((key for key in [*whole, *short] if key in self.rows or key in self.cells), REST if row[0] else "")

    def of_cells(self, key: str, count: int) -> list[str]:
        """The items of each of a row's cells."""
        cells = self.cells.get(key, [])
        if SAME in cells:
            at = cells.index(SAME)
            cells = [*cells[:at], *[cells[at - 1]] * (count - len(cells) + 1), *cells[at + 1 :]]
        return [*cells, *[""] * (count - len(cells))]

    def name(self, label: str) -> str:
        """What stands for a row or column in queries: what the mark says, or of `20,000 steps` the number."""
        steps = re.match(r"(\d[\d,.]*k?)(?: |$)", label)
        return self.names.get(plain(label), steps[1].replace(",", "") if steps else plain(label))


def of_table(block: Block, known: dict[str, str]) -> Iterator[Problem]:
    """The problems of a table."""
    mark, above = TableMark("\n".join(block.marks), known), ""
    head, *rows = block.names
    unused = {*mark.cells, *mark.rows}
    for (line, cells), row in zip(block.rows, rows, strict=True):
        above, key = row[0] or above, mark.key(row)
        unused.discard(key)
        found = [numbers(cell, line) for cell in cells]
        words = known | {plain(title): mark.name(cell) for title, cell in zip(head, row, strict=True)} | {"row": mark.name(above)}
        if key in mark.rows:
            yield from compare(list(chain(*found)), fill(mark.rows[key], words), line)
            continue
        for title, printed, items in zip(head[1:], found, mark.of_cells(key, len(cells)), strict=True):
            if printed:
                yield from compare(printed, fill(items, words | {"column": mark.name(title)}), line)
        if mark.bold and not best_is_bold(cells, found):
            yield Problem(line, "the highest number of this row should be bold, and no other")
    for key in sorted(unused):
        yield Problem(block.rows[0][0], f"the mark has a row {key!r}, which the table does not have")


def best_is_bold(cells: list[str], found: list[list[Number]]) -> bool:
    """Whether the cells whose first number is the highest of a row, and no others, are bold."""
    values = [parsed(printed[0].text)[0] if printed else -math.inf for printed in found]
    return [cell.startswith("**") for cell in cells] == [value == max(values) for value in values]


def fill(items: str, words: dict[str, str]) -> str:
    """Items with what names in `{...}` stand for."""
    return re.sub(r"\{([^{}]+)\}", lambda match: words.get(match[1], match[0]), items)

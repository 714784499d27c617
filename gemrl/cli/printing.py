"""Prints tables; where one does not fit, row by row, so that no word is cut."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WORD = re.compile(r"^\s*\S*|\S+")
"""What is never broken: a word, the first one of a line with the spaces before it."""
SHORT = 12
"""Cells of at most this many characters share a line."""
WIDE = 160
"""Characters in a line if the output is not a terminal and COLUMNS is not set."""


def show(*tables: Table) -> None:
    """Prints tables as wide as the terminal or COLUMNS; rows become paragraphs where columns would cut their words."""
    console = Console()
    if not console.is_terminal and not _given_columns():
        console = Console(width=WIDE)
    for table in tables:
        for part in [table] if _fitted(table, console) else _paragraphs(table):
            console.print(part, highlight=False)


def _fitted(table: Table, console: Console) -> bool:
    """Sets the widths of a table's columns so that no word is cut, which rich does not see to; False if it does not fit."""
    unbounded = console.options.update(width=10_000)
    lines = [[line for cell in (column.header, *column.cells) for line in _lines(cell)] for column in table.columns]
    least = [max(cell_len(word) for line in column for word in WORD.findall(line)) for column in lines]
    most = [max(map(cell_len, column)) for column in lines]
    for column, width in zip(table.columns, least, strict=True):
        column.width = width
    room = console.width - Measurement.get(console, unbounded, table).minimum
    wanted = sum(most) - sum(least)
    for column, low, high in zip(table.columns, least, most, strict=True):
        column.width = low + (high - low) * max(0, min(room, wanted)) // max(wanted, 1)
    return room >= 0


def _given_columns() -> bool:
    """Whether the environment variable COLUMNS is a width that rich respects."""
    columns = os.environ.get("COLUMNS", "")
    return columns.isdecimal() and int(columns) > 0


def _paragraphs(table: Table) -> Iterator[RenderableType]:
    """The rows of a table one below the other: the first cell, then every other cell that is not empty, indented."""
    titles = [_text(column.header).plain for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        first, *others = map(_text, row)
        filled = [(title, cell) for title, cell in zip(titles[1:], others, strict=True) if cell.plain.strip()]
        if not filled:  # the heading of a group
            yield Text()
        yield first
        for short, cells in groupby(filled, lambda pair: len(pair[1]) <= SHORT):
            lines = [line for title, cell in cells for line in _labelled(title, cell)]
            yield from (_indented(line, 6) for line in ([Text("   ").join(lines)] if short else lines))
    if table.caption:
        yield from (Text(), _text(table.caption))


def _labelled(title: str, cell: Text) -> list[Text]:
    """The lines of a cell, the first one after its title; a cell with several lines begins below it."""
    label, lines = Text(f"{title}: ", style="dim"), list(cell.split("\n"))
    return [label + cell] if len(lines) == 1 else [label, *(Text("  ") + line for line in lines)]


def _lines(cell: RenderableType) -> list[str]:
    """The lines of a cell."""
    return _text(cell).plain.split("\n")


def _text(cell: RenderableType) -> Text:
    """A cell as text."""
    return cell.copy() if isinstance(cell, Text) else Text.from_markup(str(cell))


def _indented(text: Text, spaces: int) -> Padding:
    """A text whose lines all begin after this many spaces; a word longer than a line is folded."""
    text.overflow = "fold"
    return Padding(text, (0, 0, 0, spaces), expand=False)

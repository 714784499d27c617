"""Marks: what the numbers of a text should be, and whether they are.

A mark lists items, separated by `;`. Together they give the numbers of the text in its order:

    mujoco/gem/Hopper-v5 last               a query
    about ladder/td3/0 last                 a query whose number is printed rounded: 2,200 for 2,202.4
    1,462: a run that was not kept          a number that no file has, and its source
    "in 40 of 40" in theory/theory.json     words of a text file, with their numbers

Numbers of steps, seeds and so on (`pages.SETTINGS`) may be left out, and so may steps that a query names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.numbers.pages import NUMBER, Number
from tests.numbers.queries import amounts, answer
from tests.numbers.sources import ROOT, NoSource

SOURCE = re.compile(r"(?P<numbers>[+-]?\d[\d,.]*(?: [+-]?\d[\d,.]*)*): +\S")
QUOTE = re.compile(r'"(?P<words>[^"]+)" in (?P<file>\S+)')
"""Forms of an item that is no query."""

SCALES = {"k": 1e3, "M": 1e6}


def parsed(text: str) -> tuple[float, float]:
    """The value of a printed number, and the unit of its last digit."""
    digits = text.replace(",", "").rstrip("kM")
    scale = SCALES.get(text[-1], 1.0)
    return scale * float(digits), scale * 10.0 ** -len(digits.partition(".")[2])


class Expected(NamedTuple):
    """A number that a text should have next: its value, or how it is printed."""

    value: float
    item: str
    printed: str = ""
    rough: bool = False

    def agrees(self, text: str) -> bool:
        """Whether a printed number is this one, as far as it is printed; a rough one may end in zeros that say nothing."""
        if self.printed:
            return text == self.printed
        found, unit = parsed(text)
        if self.rough and (zeros := re.search(r"\d(0+)$", text.replace(",", ""))):
            unit *= 10 ** len(zeros[1])
        return abs(found - self.value) <= 0.5001 * unit

    def __str__(self) -> str:
        return self.printed or (f"{self.value:,.1f}".removesuffix(".0") if abs(self.value) >= 100 else f"{self.value:.4g}")


@dataclass(frozen=True)
class Problem:
    """What is wrong with a number, and in which line of its page."""

    line: int
    text: str


def expected(items: str) -> tuple[list[Expected], set[float]]:
    """The numbers that items give, and the steps and bounds that their queries name."""
    found: list[Expected] = []
    named: set[float] = set()
    for item in filter(None, (" ".join(part.split()) for part in items.split(";"))):
        if source := SOURCE.match(item):
            found += [Expected(0.0, item, printed) for printed in source["numbers"].split()]
        elif quote := QUOTE.fullmatch(item):
            found += [Expected(0.0, item, printed) for printed in NUMBER.findall(quoted(quote["words"], quote["file"]))]
        else:
            query = item.removeprefix("about ")
            found += [Expected(value, query, "", query != item) for value in answer(query)]
            named |= amounts(query)
    return found, named


def quoted(words: str, file: str) -> str:
    """These words, if the file in results/ has them."""
    if words not in (ROOT / "results" / file).read_text():
        raise NoSource(f'{file} does not have "{words}"')
    return words


def compare(printed: list[Number], items: str, line: int) -> Iterator[Problem]:
    """At most one problem of a text that begins in this line: the first number that is not the one that should come next."""
    try:
        wanted, named = expected(items)
    except NoSource as error:
        yield Problem(line, f"the mark cannot be read: {error}")
        return
    reached = {0}  # how many of the expected numbers may have been found so far
    for number in printed:
        after = {count + 1 for count in reached if count < len(wanted) and wanted[count].agrees(number.text)}
        if number.optional or parsed(number.text)[0] in named:
            after |= reached
        if not after:
            yield Problem(number.line, complaint(number.text, wanted[max(reached) :]))
            return
        reached = after
    if len(wanted) not in reached:
        rest = wanted[max(reached)]
        yield Problem(line, f"no number is left for `{rest.item}`, which gives {rest}")


def complaint(text: str, wanted: list[Expected]) -> str:
    """What to do about a number that is not the expected one."""
    if wanted:
        return f"{text} should be {wanted[0]} by `{wanted[0].item}`, or needs its own source before that one"
    return (
        f"{text} has no source: write <!-- numbers: QUERY --> at the end of its paragraph or below its table, "
        f"or `{text}: SOURCE` in the mark that is there (CONTRIBUTING.md)"
    )

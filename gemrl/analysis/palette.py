"""Colours, dashes and marks by which methods are told apart, with colour blindness and in print too."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

from gemrl.algorithms.registry import algorithm_in

BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777"
BLACK = "#000000"
"""Colours that survive colour blindness and print (Okabe and Ito)."""

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, GREY)
DASHES = ("solid", "dash", "dot", "dashdot")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
HOMES = {"gem": 0, "td3": 1, "sac": 2, "ddpg": 3, "td3-sil": 4}
"""Places of methods that stand in several figures of the paper, so that each looks the same in all of them."""


class Style(NamedTuple):
    """How one method is drawn; `dash` is plotly's name of it."""

    colour: str
    dash: str
    mark: str


def is_gem(name: str) -> bool:
    """Whether a method is gem or one of its variants, with settings in its name or without."""
    algorithm = algorithm_in(name)
    return algorithm is not None and "gem" in (algorithm.name, algorithm.variant_of)


def styles(names: Iterable[str]) -> dict[str, Style]:
    """A style for each name, no two alike up to 28 of them; gem, or the first of its kin where there is no gem, is blue."""
    every = []
    for turn, dash in enumerate(DASHES):
        marks = MARKS[turn:] + MARKS[:turn]  # so that a colour comes back with another mark
        every += [Style(colour, dash, mark) for colour, mark in zip(COLOURS, marks, strict=True)]
    order = sorted(dict.fromkeys(names), key=lambda name: not is_gem(name))
    places = {name: HOMES[name] for name in order if name in HOMES}
    free = (place for place in count() if place not in places.values())
    places |= {name: next(free) for name in order if name not in HOMES}
    return {name: every[place % len(every)] for name, place in places.items()}

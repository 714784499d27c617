"""Colours, dashes and markers of methods, chosen to stay distinct in print and for colour-blind readers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, cycle
from typing import NamedTuple

from gemrl.algorithms.registry import algorithm_in

BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777"
BLACK, WINE = "#000000", "#882255"
"""The colour-blind-safe palette of Okabe and Ito, and a wine red of Paul Tol's."""

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY, GREY, WINE)
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
FIXED = {"gem": 0, "td3": 1, "sac": 2, "ddpg": 3, "td3-sil": 4}
"""Style indices of methods that appear in several figures of the paper, so that each looks the same in all of them."""


class Style(NamedTuple):
    """How one method is drawn; `dash` is named as in plotly."""

    colour: str
    dash: str
    marker: str


def is_gem(name: str) -> bool:
    """Whether a method is gem or one of its variants, with settings in its name or without."""
    algorithm = algorithm_in(name)
    return algorithm is not None and "gem" in (algorithm.name, algorithm.variant_of)


def styles(names: Iterable[str]) -> dict[str, Style]:
    """A style for each name, distinct for up to 32 names; gem, or its first variant if there is no gem, is blue."""
    available = []
    for shift in range(len(DASHES)):  # a repeated colour gets another dash and another marker
        markers = MARKERS[shift:] + MARKERS[:shift]
        dashes = cycle(DASHES[shift:] + DASHES[:shift])
        available += [Style(*style) for style in zip(COLOURS, dashes, markers, strict=False)]
    order = sorted(dict.fromkeys(names), key=lambda name: not is_gem(name))
    indices = {name: FIXED[name] for name in order if name in FIXED}
    free = (index for index in count() if index not in indices.values())
    indices |= {name: next(free) for name in order if name not in FIXED}
    return {name: available[index % len(available)] for name, index in indices.items()}

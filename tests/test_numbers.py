"""Every number on the README and the results pages is the one that results/ has, or says where it is from."""

from __future__ import annotations

import csv
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator

import markdown  # type: ignore[import-untyped]
import pytest
from markdown_it import MarkdownIt

from tests.numbers.check import PAGES, check, problems, report
from tests.numbers.pages import MARK, NUMBER, blocks, names, numbers
from tests.numbers.queries import answer
from tests.numbers.sources import ROOT, NoSource


@pytest.mark.parametrize("page", PAGES)
def test_every_number_has_its_source(page: str) -> None:
    assert report(page) == []


def changed(number: str) -> str:
    """A number with another last digit, far enough from the first for any rounding."""
    at = max(place for place, character in enumerate(number) if character.isdigit())
    return f"{number[:at]}{(int(number[at]) + 5) % 10}{number[at + 1 :]}"


def unnoticed(page: str, every: int = 1) -> Iterator[str]:
    """The numbers of a page, one of so many, that need a source and can be changed without a problem."""
    known, count = names(page), 0
    for block in blocks(page):
        for line, cells in block.rows:
            for place, cell in enumerate(cells):
                optional = [number.optional for number in numbers(cell, line)]
                for match, skipped in zip(NUMBER.finditer(cell), optional, strict=True):
                    count += not skipped
                    if not skipped and count % every == 0:
                        cells[place] = cell[: match.start()] + changed(match[0]) + cell[match.end() :]
                        if not list(check(block, known)):
                            yield f"line {line}: {match[0]}"
                cells[place] = cell


@pytest.mark.parametrize("page", PAGES)
def test_a_changed_digit_of_a_page_fails(page: str) -> None:
    assert list(unnoticed((ROOT / page).read_text(), every=7)) == []


KINDS = {
    "query": "GEM has 1,386. <!-- numbers: mujoco/gem/Hopper-v5 score mean -->",
    "queries": (
        "- GEM has 1,039, 1,017 and 2,423,\n  and values off by 30. <!-- numbers: mujoco/gem/Hopper-v5 last;\n"
        "  mujoco/gem/Hopper-v5 error last abs max -->\n- another item\n"
    ),
    "rounded": "About 4,200. <!-- numbers: about mujoco/gem/HalfCheetah-v5 last mean -->",
    "difference": "It gains 570. <!-- numbers: ladder/ladder-5/0 last - ladder/ladder-6/0 last -->",
    "comparison": "In 13 of 16 comparisons. <!-- numbers: likely mujoco gem -->",
    "published": 'TD3 has 10,136. <!-- numbers: "docs/anchors.csv/TD3, Tianshou/HalfCheetah-v3" at 1000k -->',
    "source": "One had 1,462. <!-- numbers: 1,462: a run that was not kept -->",
    "quote": 'It holds in 40 of 40. <!-- numbers: "in 40 of 40" in theory/theory.json -->',
    "columns": (
        "| task | gem | sac |\n|---|---|---|\n| Hopper-v5 | **1,386 ± 613** | 571 ± 282 |\n"
        "<!-- numbers:\n| * | mujoco/{column}/{row} score mean, score std | ... |\nbest in bold\n-->\n"
    ),
    "rows": (
        "| task | gem, seed 1 |\n|---|---|\n| Hopper, the last | 1,017 |\n| | -30 |\n| Swimmer | 51 |\n"
        "<!-- numbers:\nHopper, ...: mujoco/gem/{H}/1 last\n| | mujoco/gem/{H}/1 error last |\n"
        "| * | mujoco/gem/{row}/1 last |\nSwimmer = Swimmer-v5\n-->\n<!-- names:\nH = Hopper-v5\n-->\n"
    ),
}
"""A page for each kind of mark."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_digit_fails_with_each_kind_of_mark(kind: str) -> None:
    assert problems(KINDS[kind]) == []
    assert list(unnoticed(KINDS[kind])) == []


def test_a_number_without_a_source_fails_and_says_what_to_write() -> None:
    (found,) = problems("# Title\n\nText.\nGEM reaches 1,386 on Hopper.")
    assert found.line == 4
    assert found.text.startswith("1,386 has no source: write <!-- numbers: QUERY --> at the end of its paragraph")
    (found,) = problems("| task | gem |\n|---|---|\n| Hopper-v5 | 1,386 |\n")
    assert found.line == 3


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (KINDS["query"].replace("1,386", "1,387"), "1,387 should be 1,385.7 by `mujoco/gem/Hopper-v5 score mean`"),
        (KINDS["query"].replace("1,386", "many"), "no number is left for"),
        (KINDS["query"].replace("1,386", "1,386 and 17"), "17 has no source"),
        (KINDS["query"].replace("gem", "gme"), "there is no run mujoco/gme/Hopper-v5"),
        (KINDS["query"].replace("score", "scores"), "'scores' is none of: return, error"),
        (KINDS["query"].replace("score mean", "at 1"), "no evaluation at step 1"),
        (KINDS["quote"].replace('"in 40', '"in 39'), "theory/theory.json does not have"),
        (KINDS["columns"].replace("**", ""), "should be bold"),
        (KINDS["columns"].replace("| * |", "| Ant-v5 |"), "the mark has a row 'Ant-v5', which the table does not have"),
    ],
)
def test_a_mark_that_does_not_fit_is_explained(page: str, complaint: str) -> None:
    assert any(complaint in problem.text for problem in problems(page))


@pytest.mark.parametrize(
    "text",
    [
        "50,000 steps, 3 seeds, 10 deterministic episodes every 5,000 steps",
        "`k = 5`, [Hu et al., 2021](https://example.org/2021), seeds 0, 1 and 2, JAX 0.10.2 and version 5",
        "TD3 on Walker2d-v5 at commit 5c4a40c, p = 0.1, two networks of 256-256, 96 x 96 images, a 5-step return",
        "```sh\ngemrl train --steps 50000 --set tau=0.6\n```\n",
    ],
)
def test_settings_need_no_mark(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize("text", ["4,236 ± 523", "with seed 2, 2,740", "+69", "from 47 to 51", "47-51", "0.35,0.49", "64%", "4k"])
def test_results_need_a_mark(text: str) -> None:
    assert [number.text for number in numbers(text, 1) if not number.optional]
    assert problems(text)


def test_queries_give_what_the_files_have() -> None:
    """A table and an error, worked out from the files with Python's own tools."""
    runs = [list(csv.DictReader((ROOT / f"results/mujoco/gem/Hopper-v5/{seed}/evaluations.csv").open())) for seed in range(3)]
    scores = [statistics.mean(float(row["return_mean"]) for row in run[-3:]) for run in runs]
    expected = [statistics.mean(scores), statistics.stdev(scores)]
    assert answer("mujoco/gem/Hopper-v5 score mean, score std") == pytest.approx(expected)
    assert answer("mujoco/gem/Hopper-v5 error at 20k") == [float(run[3]["estimation_error"]) for run in runs]
    late = [abs(float(row["estimation_error"])) for row in runs[1] if int(row["step"]) >= 15_000]
    assert answer("mujoco/gem/Hopper-v5/1 error abs from 15000 mean, error abs from 15k max") == pytest.approx(
        [statistics.mean(late), max(late)]
    )
    returns = [float(row["return_mean"]) for row in runs[2]]
    first = next(place for place, value in enumerate(returns) if value >= 400)
    held = sum(value >= 400 for value in returns[first:]) / len(returns[first:])
    assert answer("mujoco/gem/Hopper-v5/2 first 400, held 400") == [5000 * (first + 1), pytest.approx(100 * held)]


@pytest.mark.parametrize("query", ["", '"', "mujoco/gem/Hopper-v5", "ladder/td3 at", "p ladder/td3", "iqm mujoco gme"])
def test_a_query_that_makes_no_sense_says_so(query: str) -> None:
    with pytest.raises(NoSource):
        answer(query)


def visible(html: str) -> str:
    """HTML without comments and spaces."""
    return re.sub(r"<!--.*?-->|\s+", "", html, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_readers_do_not_see_marks(page: str) -> None:
    """As GitHub renders a page (CommonMark) and as the site does, it is the same without its marks."""
    text = (ROOT / page).read_text()
    without = re.sub(rf"(^|[ ]){MARK.pattern}", "", text, flags=re.MULTILINE | re.DOTALL)
    assert MARK.search(text)
    assert "<!--" not in without
    github = MarkdownIt("commonmark").enable("table")
    assert visible(github.render(text)) == visible(github.render(without))
    assert visible(markdown.markdown(text, extensions=["tables"])) == visible(markdown.markdown(without, extensions=["tables"]))


def test_the_check_does_not_import_jax() -> None:
    code = "import sys; from tests.numbers.check import report; report('README.md'); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)

"""Prints what is wrong with the numbers of the pages, or what queries give: `python -m tests.numbers ['QUERY' ...]`."""

from __future__ import annotations

import sys

from tests.numbers.check import PAGES, report
from tests.numbers.queries import answer
from tests.numbers.sources import NoSource


def main() -> None:
    """Answers the queries on the command line, or checks all pages."""
    for query in sys.argv[1:]:
        try:
            print(f"{query}: {', '.join(f'{value:,.4f}' for value in answer(query))}")
        except NoSource as error:
            sys.exit(f"{query}: {error}")
    if not sys.argv[1:]:
        found = [line for page in PAGES for line in report(page)]
        print("\n".join(found) or "every number has its source")
        sys.exit(bool(found))


if __name__ == "__main__":
    main()

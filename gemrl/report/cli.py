"""The commands that look at finished runs: gemrl figure, report, compare, export."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.arguments import Subcommands


def add_results(commands: Subcommands) -> None:
    """Adds the four commands to those of the parser."""
    for add in (_add_figure, _add_report, _add_compare, _add_export):
        add(commands)


def _add_figure(commands: Subcommands) -> None:
    figure = commands.add_parser(
        "figure",
        help="draw a figure of the paper from runs",
        description="Draw a figure of the paper from a study's runs, as PNG, SVG and PDF. Panels without runs are left out.",
        epilog="NAME: mujoco, ablation, nstep, atari, atari-rollout, atari-sticky; the name of DIR's study; or all",
        allow_abbrev=False,
    )
    figure.add_argument("name", metavar="NAME", help="the figure: a study's name, or all for every task there is")
    figure.add_argument(
        "--runs", type=Path, metavar="DIR", help="the folder of runs (default: studies/NAME if it is there, else runs)"
    )
    figure.add_argument("--out", type=Path, metavar="DIR", help="where the files go (default: the folder of runs)")
    figure.add_argument(
        "--smooth", type=_window, metavar="N", help="evaluations averaged, odd (default: 5 if there are 50 or more, else 1)"
    )
    figure.add_argument(
        "--format", action="extend", nargs="+", choices=("png", "svg", "pdf"), help="kinds of files (default: all three)"
    )
    figure.set_defaults(command=_figure)


def _add_report(commands: Subcommands) -> None:
    report = commands.add_parser(
        "report",
        help="write one HTML file on a folder of runs",
        description="Write one HTML file, which opens offline, on all runs below a folder: curves, scores, cost, settings.",
        allow_abbrev=False,
    )
    _add_page(report, "report.html", needed=False)
    report.add_argument("--table", action="store_true", help="print the scores as a Markdown table instead")
    report.set_defaults(command=_report, csv=[])


def _add_compare(commands: Subcommands) -> None:
    compare = commands.add_parser(
        "compare",
        help="lay other people's results beside runs",
        description="Print our returns beside other people's at the same steps, and write the report with their curves in it.",
        epilog="FILE has the columns method, env, step, return, and perhaps source. Versions of environments may differ.",
        allow_abbrev=False,
    )
    _add_page(compare, "compare.html")
    compare.add_argument(
        "--csv", type=Path, action="append", required=True, metavar="FILE", help="their results; may be given several times"
    )
    compare.set_defaults(command=_compare)


def _add_export(commands: Subcommands) -> None:
    export = commands.add_parser(
        "export",
        help="write runs as rl-zoo3's evaluations.npz",
        description="Write each run below a folder as OUT/<method>/<env>_<n>/evaluations.npz, which rl-zoo3's plots read.",
        allow_abbrev=False,
    )
    export.add_argument("runs", type=Path, metavar="DIR", help="the folder of runs")
    export.add_argument("--out", type=Path, default=Path("logs"), metavar="OUT", help="where they go (default: logs)")
    export.set_defaults(command=_export)


def _add_page(parser: argparse.ArgumentParser, name: str, *, needed: bool = True) -> None:
    usual = "" if needed else " (default: runs, or studies where there is no such folder)"
    parser.add_argument("runs", type=Path, metavar="DIR", nargs=None if needed else "?", help=f"the folder of runs{usual}")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"the file to write (default: DIR/{name})")
    parser.add_argument("--title", metavar="TEXT", help="the page's title (default: the study's, or the folder's name)")
    parser.add_argument("--no-videos", action="store_true", help="leave films out of the file")


def _window(text: str) -> int:
    if not text.isdecimal() or len(text) > 4 or int(text) % 2 == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an odd number such as 1 or 5")
    return int(text)


RUNS = Path("runs")


def _first_folder(*places: Path) -> Path:
    """The first of these that is there; else where `gemrl train` puts its runs."""
    return next((place for place in places if place.is_dir()), RUNS)


def _figure(options: argparse.Namespace) -> int:
    from gemrl.figures.paper import show_figure

    options.runs = options.runs or _first_folder(Path("studies", options.name))
    return show_figure(options)


def _report(options: argparse.Namespace) -> int:
    from gemrl.report.writing import write_report

    options.runs = options.runs or _first_folder(RUNS, Path("studies"))
    return write_report(options)


def _compare(options: argparse.Namespace) -> int:
    from gemrl.report.comparing import show_comparison

    return show_comparison(options)


def _export(options: argparse.Namespace) -> int:
    from gemrl.report.exporting import export_runs

    return export_runs(options)

"""`gemrl export`: writes a trained policy for deployment, or runs in the format that the plotting scripts of rl-zoo3 read."""

from __future__ import annotations

import argparse
from pathlib import Path

from gemrl.analysis.report.rl_zoo3 import export_runs
from gemrl.analysis.results.collection import collect
from gemrl.cli.arguments import path
from gemrl.cli.console import working
from gemrl.cli.text import echo
from gemrl.core.exit_codes import DONE
from gemrl.core.reading import is_folder
from gemrl.core.suggestions import unknown
from gemrl.core.text import counted
from gemrl.envs.making import import_module_of
from gemrl.experiments.run_folder import describe
from gemrl.training.export.formats import FORMATS

RL_ZOO3 = "rl-zoo3"
"""The format of results; all others are formats of policies."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = (
        "Export the trained policy of a run or of a saved model, to run it without gemrl (numpy, onnx, torch); "
        "or write each run below a folder to OUT/<method>/<env>_<n>/evaluations.npz, which rl-zoo3 can plot."
    )
    parser.epilog = "docs/deploying.md shows how to run an exported policy."
    parser.add_argument("source", type=path, metavar="PATH", help="a run folder or a saved model; for rl-zoo3 a folder of runs")
    formats = ", ".join((RL_ZOO3, *FORMATS))
    parser.add_argument("--format", default=RL_ZOO3, metavar="NAME", help=f"one of {formats} (default: {RL_ZOO3})")
    parser.add_argument(
        "--out", type=path, metavar="OUT", help="output folder (default: logs for rl-zoo3, policy-NAME for the others)"
    )
    parser.set_defaults(command=export)


def export(options: argparse.Namespace) -> int:
    """Exports runs or a policy; returns the exit code."""

    if options.format == RL_ZOO3:
        return _export_runs(options.source, options.out or Path("logs"))
    if options.format not in FORMATS:
        known = (RL_ZOO3, *FORMATS)
        raise unknown("format", options.format, known, f"; known: {', '.join(known)}")
    return _export_policy(options.source, options.out or Path(f"policy-{options.format}"), options.format)


def _export_runs(source: Path, out: Path) -> int:
    """Writes evaluations.npz for every run; returns the exit code."""
    collection = collect(source)
    written = export_runs(collection, out)
    echo(f"wrote {counted(written, 'run')} to {out}, as <method>/<env>_<n>/evaluations.npz")
    for run in collection.unfinished():
        echo(f"not finished, but written: {run.folder} is at step {run.last_step:,} of {run.description['steps']:,}")
    for reason in collection.unreadable:
        echo(f"left out: {reason}")
    return DONE


def _export_policy(source: Path, out: Path, name: str) -> int:
    """Writes the policy of a run or of a saved model; returns the exit code."""
    FORMATS[name].check(out)
    if is_folder(source):
        import_module_of(describe(source)["env"])  # it may register the model's algorithm or parts
    with working("exporting the policy"):
        from gemrl.experiments.loading import load  # JAX loads slowly, so wrong arguments are reported first
        from gemrl.training.export.exporting import export_policy

        model = load(source)
        files = export_policy(model, out, name)
    sizes = ", ".join(f"{file} ({file.stat().st_size:,} bytes)" for file in files)
    echo(f"wrote {sizes}: {model.algo} at step {model.num_timesteps:,}")
    return DONE

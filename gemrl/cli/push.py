"""`gemrl push`: puts the trained model of a run on the Hugging Face Hub."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from gemrl.cli.arguments import path
from gemrl.cli.console import working
from gemrl.cli.text import echo
from gemrl.core.exit_codes import DONE
from gemrl.experiments.hub import PREFIX, checked_name, push, write_folder


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command to its parser."""
    parser.description = (
        "Push the trained model of a run to the Hugging Face Hub, with its results and a model card. "
        "Log in with `hf auth login` first, or set HF_TOKEN."
    )
    parser.epilog = f'gemrl.load("{PREFIX}USER/NAME") loads it again. docs/deploying.md tells what is uploaded.'
    parser.add_argument("run", type=path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument("name", metavar="USER/NAME", help="the model's name on the Hub")
    parser.add_argument("--private", action="store_true", help="make the model private, if it is new")
    parser.add_argument("--out", type=path, metavar="FOLDER", help="only write the files to this folder, and upload nothing")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> int:
    """Pushes a run, or writes what would be pushed; returns the exit code."""
    name = checked_name(options.name)
    if options.out is not None:
        write_folder(options.run, options.out, name)
        echo(f"wrote {options.out}; nothing was uploaded")
        return DONE
    with tempfile.TemporaryDirectory() as folder:
        write_folder(options.run, Path(folder), name)
        with working(f"pushing to {name}"):
            address = push(Path(folder), name, private=options.private)
    echo(f'pushed to {address}; gemrl.load("{PREFIX}{name}") loads it')
    return DONE

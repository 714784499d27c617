"""The report as one HTML file that contains plotly and all data, so it opens offline."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gemrl.analysis.labels import step_label
from gemrl.analysis.palette import styles
from gemrl.analysis.report import summary
from gemrl.analysis.report.videos import Videos
from gemrl.analysis.results.collection import Collection
from gemrl.analysis.results.run import Run
from gemrl.analysis.results.scales import scale
from gemrl.analysis.results.searches import search_record
from gemrl.core.exceptions import MissingExtra, RunFolderError
from gemrl.core.files import write_bytes
from gemrl.core.version import __version__

SCRIPTS = ("base", "tables", "charts", "curves", "overall", "searches", "sections", "run", "start")
"""The scripts of the page, in the order in which they run."""

SHOWN_ELSEWHERE = ("algo", "env", "seed", "recipe", "versions")
"""Keys of run.json that the view of a run does not show in its list of facts."""


def write_page(
    collection: Collection, target: Path, *, title: str | None = None, videos: bool = True, others: Sequence[summary.Record] = ()
) -> int:
    """Writes the report on a collection, including external results, and returns its size in bytes."""
    text = page(collection, title=title, videos=videos, others=others).encode(errors="replace")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(target, text)
    except OSError as error:
        raise RunFolderError(f"cannot write {target}: {error.strerror or error}") from None
    return len(text)


def page(collection: Collection, *, title: str | None = None, videos: bool = True, others: Sequence[summary.Record] = ()) -> str:
    """The complete HTML text."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingExtra("reports need plotly: pip install 'gemrl[report]'") from None
    kind = "Runs" if collection.runs else "Searches"
    title = title or str(collection.study.get("title") or f"{kind} in {collection.folder.resolve().name}")
    data = contents(collection, title, videos=videos, others=others)
    pieces = {
        "TITLE": html.escape(title),
        "STYLE": _file("page.css"),
        "SCRIPT": "\n".join(_file(f"{name}.js") for name in SCRIPTS),
        "DATA": json.dumps(plain(data), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "PLOTLY": get_plotlyjs().replace("</script", "<\\/script"),
    }
    first, *rest = _file("page.html").split("{{")  # pieces are inserted once and never searched for placeholders themselves
    return first + "".join(pieces[part.partition("}}")[0]] + part.partition("}}")[2] for part in rest)


def contents(collection: Collection, title: str, *, videos: bool, others: Sequence[summary.Record]) -> summary.Record:
    """All data that the page shows."""
    style = styles([*collection.methods, *(other["method"] for other in others)])
    reader = Videos(collection.folder) if videos else None
    envs = []
    for env in collection.envs:
        known = {
            "id": env,
            "steps": step_label(env),
            "step": collection.final_step(env),
            "scale": scale(collection, env)._asdict(),
        }
        quantities = {name: summary.curves(collection, env, column) for name, column in COLUMNS.items()}
        envs.append(known | quantities | {"others": [other for other in others if other["our_env"] == env]})
    return {
        "title": title,
        "version": __version__,
        "methods": [{"name": name, **style[name]._asdict()} for name in collection.methods],
        "otherMethods": [{"name": name, **style[name]._asdict()} for name in dict.fromkeys(o["method"] for o in others)],
        "envs": envs,
        "scores": summary.score_rows(collection),
        "differences": summary.difference_rows(collection),
        "overall": summary.overall(collection),
        "shared": summary.shared_rows(collection, others),
        "cost": summary.cost_rows(collection),
        "recipes": summary.recipe_differences(collection),
        "runs": [_run(run, collection, reader) for run in collection.runs],
        "searches": [search_record(found, collection.folder) for found in collection.searches],
        "leftOut": [reason.replace(f"{collection.folder}/", "") for reason in collection.left_out],
        "notes": reader.notes if reader else [],
    }


COLUMNS = {"returns": "return_mean", "errors": "estimation_error"}


def _run(run: Run, collection: Collection, videos: Videos | None) -> summary.Record:
    """The data of one run: curve, settings, versions and videos."""
    return {
        "method": run.method,
        "algo": run.description["algo"],
        "env": run.env,
        "steps": step_label(run.env),
        "seed": run.seed,
        "folder": run.folder.relative_to(collection.folder).as_posix(),
        "finished": run.finished,
        "lastStep": run.last_step,
        "score": run.score(collection.final_step(run.env)),
        "hours": run.timing.seconds / 3600 if run.timing else None,
        "speed": run.speed,
        "evaluations": run.evaluations,
        "recipe": run.recipe,
        "versions": run.description.get("versions", {}),
        "facts": {name: value for name, value in run.description.items() if name not in SHOWN_ELSEWHERE},
        "videos": videos.of(run) if videos else [],
    }


def plain(value: Any) -> Any:
    """The value as JSON types: arrays as lists, floats to six digits, None for NaN and infinity."""
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def _file(name: str) -> str:
    return resources.files("gemrl.analysis.report").joinpath("assets", name).read_text(encoding="utf-8")

"""The architecture: a layer imports only from the layers below it, and heavy or foreign packages only where they belong."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.architecture import LAYERS, PICTURE, picture

ROOT = Path(__file__).parents[1] / "gemrl"

RANK = {name: level for level, names in enumerate(reversed(LAYERS)) for name in names}

NUMERICS = {"jax", "jaxlib", "equinox", "optax"}
TERMINAL = {"argparse", "rich"}


def modules() -> dict[str, Path]:
    """Every module of gemrl by its dotted name, without the package itself."""
    files = (path.relative_to(ROOT) for path in sorted(ROOT.rglob("*.py")))
    named = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): ROOT / path for path in files}
    return {name: path for name, path in named.items() if name not in ("__init__", "__main__")}


def imports(source: str, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and target of every import, those inside functions included, those for type checkers left out."""
    tree = ast.parse(source)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield node.lineno, full if full.removeprefix("gemrl.") in known else node.module
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            yield from ((node.lineno, str(word.value)) for word in node.args if isinstance(word, ast.Constant))


def violations(sources: dict[str, str]) -> list[str]:
    """Every import that breaks a rule, as "module:line imports target: why"."""
    found = []
    for name, source in sources.items():
        layer = name.split(".")[0]
        for line, target in imports(source, set(sources)):
            top, _, rest = target.partition(".")
            reason = ""
            if top == "gemrl":
                other = rest.split(".")[0]
                if other not in RANK:
                    reason = "the top level of the package is above every layer"
                elif other != layer and RANK[other] >= RANK[layer]:
                    reason = f"{layer} is not above {other}"
            elif top in NUMERICS and layer != "agents" and name != "training.pytrees":
                reason = "only agents compute with JAX, and training.pytrees reads and writes its arrays"
            elif top in TERMINAL and layer != "cli":
                reason = "only cli knows the terminal"
            if reason:
                found.append(f"gemrl.{name}:{line} imports {target}: {reason}")
    return found


def sources() -> dict[str, str]:
    return {name: path.read_text() for name, path in modules().items()}


def test_every_package_is_a_layer() -> None:
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == set(RANK)


def test_imports_go_down() -> None:
    assert violations(sources()) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("core.files", "from gemrl.cli.printing import show"),
        ("agents.continuous", "def f():\n    import gemrl.envs.making"),
        ("envs.making", "from gemrl.agents import protocol"),
        ("algorithms.planning", "import jax.numpy as jnp"),
        ("training.loop", "from rich.console import Console"),
        ("experiments.run", "import importlib\nimportlib.import_module('gemrl.analysis.video')"),
        ("training.saving", "import gemrl"),
    ],
)
def test_an_edge_that_is_turned_around_is_found(module: str, line: str) -> None:
    """The rule itself: each of these lines would break it, and is named."""
    changed = sources() | {module: f"{sources()[module]}\n{line}\n"}
    assert len(violations(changed)) == 1
    assert violations(changed)[0].startswith(f"gemrl.{module}:")


def cycles(edges: dict[str, set[str]]) -> list[str]:
    """Names that can be reached from themselves."""
    found = []
    for start in edges:
        seen, waiting = set(), list(edges[start])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += edges.get(name, ())
        found += [start] if start in seen else []
    return found


def test_there_are_no_cycles() -> None:
    """Neither of modules nor of packages."""
    known = set(modules())
    targets = {name: {target.removeprefix("gemrl.") for _, target in imports(text, known)} for name, text in sources().items()}
    assert cycles({name: (found & known) - {name} for name, found in targets.items()}) == []
    packages: dict[str, set[str]] = {}
    for name, found in targets.items():
        package = name.rpartition(".")[0] or name
        inner = {target.rpartition(".")[0] or target for target in found if target in known}
        packages.setdefault(package, set()).update(inner - {package})
    tops = {name: {other for other in found if not other.startswith(f"{name}.")} for name, found in packages.items()}
    assert cycles(tops) == []


def test_the_picture_is_drawn_from_this_code() -> None:
    assert PICTURE.read_text() == picture(), "out of date: python -m benchmarks.architecture"

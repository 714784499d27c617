"""The picture of the architecture, drawn from the code: layers, their modules, and what each layer imports.

python -m benchmarks.architecture writes docs/images/architecture.svg; a test says when it is out of date.
"""

from __future__ import annotations

import ast
import html
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, PICTURE = ROOT / "gemrl", ROOT / "docs" / "images" / "architecture.svg"

LAYERS = (("cli",), ("analysis",), ("experiments",), ("training",), ("agents", "envs"), ("algorithms",), ("core",))
"""Top first. Packages of one level do not import each other."""

WIDTH, GAP, LINE, PADDING = 960, 14, 18, 12
LETTER = 6.6
"""Pixels of a letter in the small font."""
COLOURS = {
    "cli": "#f6e3d0",
    "analysis": "#f8efd2",
    "experiments": "#e9f1d5",
    "training": "#d9efdf",
    "agents": "#d5ebf3",
    "envs": "#d5ebf3",
    "algorithms": "#dfe2f5",
    "core": "#e8e8e8",
}


def summary(layer: str) -> str:
    """The docstring of a layer."""
    return ast.get_docstring(ast.parse((PACKAGE / layer / "__init__.py").read_text())) or ""


def members(layer: str) -> list[str]:
    """The modules of a layer; those of a package inside it in brackets behind its name."""
    found = []
    for path in sorted((PACKAGE / layer).iterdir()):
        if path.suffix == ".py" and path.stem != "__init__":
            found.append(path.stem)
        elif (path / "__init__.py").exists():
            inner = sorted(file.stem for file in path.glob("*.py") if file.stem != "__init__")
            found.append(f"{path.name}/ ({', '.join(inner)})")
    return found


def imported(layer: str) -> list[str]:
    """The layers that a layer imports from, top first."""
    found = set()
    for path in (PACKAGE / layer).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gemrl."):
                found.add(node.module.split(".")[1])
    return [name for names in LAYERS for name in names if name in found and name != layer]


def box(layer: str, x: float, y: float, width: float) -> tuple[list[str], float]:
    """The SVG of a layer's box, and its height."""
    letters = int((width - 2 * PADDING) / LETTER)
    lines = [("bold", layer)]
    lines += [("plain", line) for line in textwrap.wrap(summary(layer), int(0.88 * letters))]  # a larger font
    lines += [("code", line) for line in textwrap.wrap(", ".join(members(layer)), letters, break_on_hyphens=False)]
    lines.append(("faint", f"imports {', '.join(imported(layer)) or 'no other layer'}"))
    height = 2 * PADDING + LINE * len(lines) - 4
    drawn = [f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{COLOURS[layer]}" stroke="#888"/>']
    for number, (style, line) in enumerate(lines):
        at = y + PADDING + LINE * number + 10
        drawn.append(f'<text x="{x + PADDING}" y="{at}" class="{style}">{html.escape(line)}</text>')
    return drawn, height


def picture() -> str:
    """The whole SVG."""
    drawn: list[str] = []
    y = float(GAP)
    for names in LAYERS:
        width = (WIDTH - GAP * (len(names) + 1)) / len(names)
        boxes = [box(name, GAP + number * (width + GAP), y, width) for number, name in enumerate(names)]
        drawn += [line for lines, _ in boxes for line in lines]
        y += max(height for _, height in boxes) + GAP
    style = (
        "text{font-family:system-ui,sans-serif;font-size:13px;fill:#222}.bold{font-weight:bold;font-size:15px}"
        ".code{font-family:ui-monospace,monospace;font-size:11px}.faint{fill:#666;font-style:italic;font-size:12px}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" width="{WIDTH}" height="{y:g}">'
    return "\n".join([head, f"<style>{style}</style>", '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture())
    print(f"wrote {PICTURE.relative_to(ROOT)}")

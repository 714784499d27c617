"""A hook of MkDocs: every notebook is executed and becomes a page, without scripts or styles from other hosts."""

from __future__ import annotations

import base64
import re
import tempfile
from pathlib import PurePosixPath
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient

SECONDS = 300
"""How long one cell may take."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LINK = re.compile(r"(\]\([^)\s]+)\.ipynb(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files with a page for every notebook."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = nbformat.read(file.abs_src_path, as_version=4)
        if config.extra["execute_notebooks"]:
            execute(notebook)
        text, images = page(notebook, PurePosixPath(file.src_uri).stem)
        files.append(File.generated(config, file.src_uri.removesuffix(".ipynb") + ".md", content=text))
        folder = PurePosixPath(file.src_uri).parent
        for name, image in images.items():
            files.append(File.generated(config, str(folder / name), content=image))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to a notebook lead to its page; on GitHub the same links open the notebook."""
    return LINK.sub(r"\1.md\2)", markdown)


def execute(notebook: Any) -> None:
    """Runs all cells in a temporary folder; an error in a cell ends the build."""
    with tempfile.TemporaryDirectory() as folder:
        manager = KernelManager(kernel_name="python3", transport="ipc", ip=f"{folder}/kernel")  # sockets of the disk, no ports
        try:
            NotebookClient(notebook, km=manager, timeout=SECONDS, resources={"metadata": {"path": folder}}).execute()
        finally:
            manager.shutdown_kernel(now=True)


def page(notebook: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and the images that its cells drew by file name."""
    parts: list[str] = []
    images: dict[str, bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(fenced("python", cell.source))
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name}-{len(images) + 1}.png"
                images[file] = base64.b64decode(data["image/png"])
                parts.append(f"![A figure drawn by the cell above]({file})")
            else:
                parts.append(fenced("text", ESCAPES.sub("", output.get("text") or data.get("text/plain", ""))))
    return "\n\n".join(parts) + "\n", images


def fenced(language: str, text: str) -> str:
    """A code block."""
    return f"```{language}\n{text.rstrip()}\n```"

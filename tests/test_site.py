"""The documentation as a site: it builds without warnings, needs no other host, and its pages work in a browser."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("material")
pytest.importorskip("mkdocstrings")
nbformat = pytest.importorskip("nbformat")
ROOT = Path(__file__).parents[1]
OPENED = [
    "index.html",
    "how-gem-works.html",
    "results/continuous.html",
    "notebooks/first-steps.html",
    "reports.html",
    "api/models.html",
]

NOT_LOADED = "images => images.filter(image => image.naturalWidth === 0).map(image => image.src)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site, without the outputs of its notebook; a warning fails the build (with --quiet it would not)."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    surroundings = os.environ | {"EXECUTE_NOTEBOOKS": "false", "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_no_page_loads_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    loads = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//", re.IGNORECASE)
    assert {page.name: found for page in pages if (found := loads.findall(page.read_text()))} == {}
    styles = [style for style in site.rglob("*.css") if re.search(r"(?:@import|url\()[\s\"']*(?:https?:)?//", style.read_text())]
    assert styles == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[tuple[Any, list[str]]]:
    """A page, and a list of its errors and of its requests to other hosts, which are blocked."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    page, trouble = context.new_page(), []

    def routed(route: Any) -> None:
        if route.request.url.startswith((address, "data:", "blob:")):
            route.continue_()
        else:
            trouble.append(route.request.url)
            route.abort()

    context.route("**/*", routed)
    page.on("console", lambda message: trouble.extend([message.text] if message.type in ("error", "warning") else []))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    yield page, trouble
    context.close()


@pytest.mark.parametrize("name", OPENED)
def test_a_page_opens_without_the_network(tab: tuple[Any, list[str]], address: str, name: str) -> None:
    page, trouble = tab
    page.goto(address + name, wait_until="networkidle")
    assert page.locator("article h1").count() == 1
    assert page.locator("img").evaluate_all(NOT_LOADED) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert trouble == []


def test_a_request_to_another_host_would_be_noticed(tab: tuple[Any, list[str]], address: str) -> None:
    page, trouble = tab
    page.goto(address + "index.html")
    page.evaluate("fetch('https://other.invalid/font.woff2').catch(() => null)")
    assert "https://other.invalid/font.woff2" in trouble


def test_the_search_box_finds_a_page(tab: tuple[Any, list[str]], address: str) -> None:
    page, trouble = tab
    page.goto(address + "index.html", wait_until="networkidle")
    page.locator("input.md-search__input").click()
    page.keyboard.type("stitched")
    result = page.locator("a.md-search-result__link", has_text="How GEM works").first
    result.wait_for()
    assert "how-gem-works.html" in result.get_attribute("href")
    assert trouble == []


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs" / "notebook_pages.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_notebook_is_executed_and_becomes_a_page(hook: ModuleType) -> None:
    new = nbformat.v4
    draw = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    cells = [new.new_markdown_cell("# Title"), new.new_code_cell("print(6 * 7)\n'end'"), new.new_code_cell(draw)]
    notebook = new.new_notebook(cells=cells)
    hook.execute(notebook)
    text, images = hook.page(notebook, "some")
    assert text.startswith("# Title\n\n```python\nprint(6 * 7)\n'end'\n```\n\n```text\n42\n```\n\n```text\n'end'\n```\n")
    assert text.endswith("![A figure drawn by the cell above](some-1.png)\n")
    assert images["some-1.png"].startswith(b"\x89PNG")


def test_an_error_in_a_notebook_ends_the_build(hook: ModuleType) -> None:
    with pytest.raises(Exception, match="ZeroDivisionError"):
        hook.execute(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")]))


def test_links_to_a_notebook_lead_to_its_page(hook: ModuleType) -> None:
    assert hook.on_page_markdown("[a](b/c.ipynb) [d](e.ipynb#f) [g](h.md)") == "[a](b/c.md) [d](e.md#f) [g](h.md)"

"""Opens the built site in Chromium, light and dark, wide and narrow: ``python -m docs.screens`` after the build.

It writes screenshots to build/screens, and fails on an error in the console, a request that fails or leaves the site, a
page that scrolls sideways, text of too little contrast (WCAG AA, by axe-core), and a search that finds nothing.
"""

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, ViewportSize, sync_playwright

from tests import chromium

BUILD = Path(__file__).parents[1] / "build"
PAGES = {
    "index": "index.html",
    "model": "docs/model.html",
    "patterns": "docs/patterns.html",  # long tables
    "requests": "docs/dynamodb_requests.html",  # long code
    "store": "docs/reference/store.html",  # long signatures
    "unique": "patterns/unique.html",  # tables of a docstring, and source
    "search": "search.html?q=transaction",
}
CONTRAST = ("model", "unique", "search")
"""Pages with text of each kind; axe-core takes seconds for a page."""

WIDE, NARROW = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


class Quiet(SimpleHTTPRequestHandler):
    """Serves the site without a log."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


def faults_of(page: Page, address: str, name: str) -> Iterator[str]:
    """Open a page, and yield what is wrong with it."""
    narrow = page.viewport_size == NARROW
    seen: list[str] = []
    page.on("console", lambda message: seen.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("request", lambda request: seen.append(request.url) if _leaves(request.url, address) else None)
    page.on("requestfailed", lambda request: seen.append(f"{request.url}: {request.failure}"))
    page.on("response", lambda answer: seen.append(f"{answer.url}: {answer.status}") if answer.status >= 400 else None)
    page.goto(f"{address}/{PAGES[name]}", wait_until="load")
    if name == "index":
        page.wait_for_url("**/docs/index.html")
    if name == "search":
        page.wait_for_selector("#search-results .search-summary:not(:empty)")
        if not page.locator("#search-results ul.search li").count():
            yield "the search finds nothing"
    if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
        yield "it scrolls sideways"
    if name in CONTRAST and not narrow:
        result = Axe().run(page, options={"runOnly": ["color-contrast"], "resultTypes": ["violations"]})
        for node in (node for violation in result.response["violations"] for node in violation["nodes"]):
            yield f"{node['html']}: {' '.join(node['failureSummary'].split())}"
    yield from seen


def _leaves(url: str, address: str) -> bool:
    return urlsplit(url).scheme != "data" and not url.startswith(f"{address}/")


def look(context: BrowserContext, address: str, name: str, screen: str) -> list[str]:
    """What is wrong with a page; takes its screenshot."""
    with context.new_page() as page:
        found = [f"{screen}: {fault}" for fault in faults_of(page, address, name)]
        page.screenshot(path=BUILD / "screens" / f"{screen}.png")
        return found


def main() -> int:
    """Look at each page; returns the exit code, 1 if there is a fault."""
    handler = partial(Quiet, directory=str(BUILD / "docs"))
    found = []
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        tempfile.TemporaryDirectory() as profile,
        sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for size, scheme in product((WIDE, NARROW), schemes):
            screen = f"{size['width']}-{scheme}"
            context = playwright.chromium.launch_persistent_context(
                Path(profile, screen),
                executable_path=chromium.find(os.environ),
                args=OPTIONS,
                color_scheme=scheme,
                viewport=size,
            )
            with context:
                for name in PAGES:
                    found += look(context, address, name, f"{name}-{screen}")
        server.shutdown()
    sys.stdout.write("".join(f"{fault}\n" for fault in found) or f"{len(PAGES) * 4} screens, in {BUILD / 'screens'}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

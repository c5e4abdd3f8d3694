"""The built documentation site in a real browser: nothing overflows, nothing is loaded from elsewhere, search, axe.

``nox -s docs`` builds the site first (or KAILAB_SITE names one). Screenshots go to ``site/`` in KAILAB_ARTIFACTS, or to
the test's own directory. axe-core comes from npm: KAILAB_AXE names its axe.min.js. Without site, Chromium or axe tests
are skipped; KAILAB_REQUIRE=browser,site,axe makes that a failure.
"""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.tools.process import Result
from tests.integration.conftest import ROOT, lacking

PAGES = (
    "index.html",
    "tutorial/first-lab.html",
    "explanation/simulated-gpus.html",
    "reference/rules/lint/fraction-key-unknown.html",
    "reference/rules/symptom/runtime-missing.html",  # a long title without spaces to break at
    "reference/rules/explain/index.html",
    "reference/kai/0.16.8.html",
    "reference/cli/tenant.html",
    "reference/lab-file-keys.html",
    "adr/index.html",
)
PHONE, DESKTOP = 390, 1280
POLICY = "default-src 'self' 'unsafe-inline' data: blob:"
"""The browser refuses and reports what a page wants from elsewhere."""

# A page in a frame of a phone's width: the window of a headless browser has 500 pixels at least.
FRAME = (
    '<!doctype html><title>frame</title><iframe src="{src}" style="border:0;width:{width}px;height:1600px"></iframe>'
)

MEASURE = """
<script>
addEventListener("load", () => setTimeout(() => {
  const root = document.documentElement, top = parent.document.documentElement;
  top.dataset.measured = JSON.stringify({width: innerWidth, wider: root.scrollWidth - root.clientWidth});
}, 1500));
</script>
"""
AXE = """
<script src="/axe.min.js"></script>
<script>
addEventListener("load", () => setTimeout(async () => {
  const root = document.documentElement;
  const found = await axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]});
  REPORT
}, 500));
</script>
"""
ONE = AXE.replace(
    "REPORT",
    """root.dataset.measured = JSON.stringify({
    scheme: document.body.dataset.mdColorScheme,
    violations: found.violations.map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 160)).slice(0, 3)]),
  });""",
)
EACH = AXE.replace(
    "REPORT",
    """const wider = root.scrollWidth - root.clientWidth;
  parent.postMessage([...found.violations.map((one) => one.id), ...(wider ? [`${wider} pixels wider`] : [])]);""",
)

# Several pages one after the other in a frame: axe, and whether anything is wider than the frame.
EVERY = """<!doctype html><title>every</title><img src="/answered?150" alt="">
<iframe style="border:0;width:{width}px;height:1600px"></iframe>
<script>
(async () => {{
  const frame = document.querySelector("iframe"), found = {{}};
  for (const page of {pages}) {{
    const message = new Promise((done) => addEventListener("message", (event) => done(event.data), {{once: true}}));
    frame.src = `/${{page}}?each`;
    const problems = await message;
    if (problems.length) found[page] = problems;
  }}
  document.documentElement.dataset.measured = JSON.stringify(found);
  fetch("/answer");
}})();
</script>
"""
# A browser prints a page once its load event came: this delays it until the search has an answer.
WAIT = """
<img src="/answered?30" alt="">
<script>
const look = setInterval(() => {
  if (!document.querySelector(".md-search-result__item a")) return;
  clearInterval(look);
  fetch("/answer");
}, 100);
</script>
"""
AT_ONCE = 20
"""Pages that one browser looks at."""
SCRIPTS = {"measure": MEASURE, "axe": ONE, "each": EACH}


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site; a page with a query gets the script of that name, ``/frame`` and ``/every`` pages in a frame."""

    answered = threading.Event()
    pages: Sequence[str] = ()
    """Those of ``/every``."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/frame":
            src, _, width = query.partition("&")
            self._send(FRAME.format(src=f"{src}?measure", width=width))
        elif path == "/every":
            self.answered.clear()
            self._send(EVERY.format(pages=json.dumps(self.pages), width=query))
        elif path == "/axe.min.js":
            self._send(Path(os.environ["KAILAB_AXE"]).read_text(), "text/javascript")
        elif path in ("/answer", "/answered"):
            self.answered.set() if path == "/answer" else self.answered.wait(float(query))
            self._send("")
        elif query.startswith("q="):
            self.answered.clear()
            self._send(Path(self.translate_path(path)).read_text().replace("</body>", f"{WAIT}</body>"))
        elif query in SCRIPTS:
            text = Path(self.translate_path(path)).read_text()
            self._send(text.replace("</body>", SCRIPTS[query] + "</body>"))
        else:
            super().do_GET()

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def _send(self, text: str, kind: str = "text/html") -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: Any) -> None:
        """Stay silent."""


@pytest.fixture(scope="module")
def site() -> Path:
    folder = Path(os.environ.get("KAILAB_SITE", ROOT / "site")).absolute()
    if not (folder / "index.html").exists():
        lacking("site", f"no site in {folder}: nox -s docs builds it")
    return folder


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    """Serves the site; returns its address."""
    handler = functools.partial(Handler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()


def measured(done: Result) -> Any:
    """What the script of the page has found; nothing was refused or failed meanwhile."""
    assert "CONSOLE" not in done.err, done.err[-3000:]
    found = re.search(r'data-measured="([^"]*)"', done.out)
    assert found is not None, done.err[-2000:]
    return json.loads(html.unescape(found[1]))


DUMP = ("--virtual-time-budget=20000", "--enable-logging=stderr", "--dump-dom")


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("page", PAGES)
def test_nothing_sticks_out_and_nothing_comes_from_elsewhere(
    browser: Callable[..., Result], server: str, page: str, width: int
) -> None:
    done = browser(f"--window-size={max(width, 600)},1700", *DUMP, f"{server}/frame?{page}&{width}")
    assert measured(done) == {"width": width, "wider": 0}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_page_is_accessible(browser: Callable[..., Result], server: str, page: str, scheme: str) -> None:
    if not os.environ.get("KAILAB_AXE"):
        lacking("axe", "no axe-core: npm install axe-core, then KAILAB_AXE=…/axe.min.js")
    done = browser(*_scheme(scheme), *DUMP, f"{server}/{page}?axe")
    assert measured(done) == {"scheme": "slate" if scheme == "dark" else "default", "violations": []}


@pytest.mark.long
@pytest.mark.parametrize(("scheme", "width"), [("light", PHONE), ("dark", DESKTOP)])
def test_every_page_is_accessible_and_nothing_sticks_out(
    browser: Callable[..., Result], server: str, site: Path, scheme: str, width: int
) -> None:
    if not os.environ.get("KAILAB_AXE"):
        lacking("axe", "no axe-core: npm install axe-core, then KAILAB_AXE=…/axe.min.js")
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if path.name != "404.html")
    found: dict[str, list[str]] = {}
    for first in range(0, len(pages), AT_ONCE):
        Handler.pages = pages[first : first + AT_ONCE]
        size = f"--window-size={max(width, 600)},1700"
        done = browser(size, *_scheme(scheme), "--enable-logging=stderr", "--dump-dom", f"{server}/every?{width}")
        found |= measured(done)
    assert found == {}


@pytest.mark.parametrize("where", ["server", "folder"])
def test_search_finds_a_message(browser: Callable[..., Result], server: str, site: Path, where: str) -> None:
    address = server if where == "server" else site.as_uri()
    budget = DUMP if where == "folder" else DUMP[1:]
    done = browser(*budget, f"{address}/index.html?q=Failed+to+initialize+NVML")
    assert "CONSOLE" not in done.err, done.err[-3000:]
    assert "reference/rules/symptom/device-rules-lost.html" in done.out


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("page", PAGES[:4])
def test_pictures_to_look_at(
    browser: Callable[..., Result], server: str, tmp_path: Path, page: str, width: int, scheme: str
) -> None:
    given = os.environ.get("KAILAB_ARTIFACTS")
    folder = Path(given).absolute() / "site" if given else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    shot = folder / f"{page.removesuffix('.html').replace('/', '-')}-{width}-{scheme}.png"
    size = f"--window-size={max(width, 500)},1600"
    browser(
        size, *_scheme(scheme), "--virtual-time-budget=5000", f"--screenshot={shot}", f"{server}/frame?{page}&{width}"
    )
    assert shot.stat().st_size > 30_000  # a blank picture of this size has less than 10 kB


def _scheme(name: str) -> list[str]:
    """Options for a desktop with a mouse: the theme lets the keyboard reach wide code only where something hovers."""
    settings = ["primaryHoverType=2", "availableHoverTypes=2", *(["preferredColorScheme=0"] if name == "dark" else [])]
    return [f"--blink-settings={','.join(settings)}"]

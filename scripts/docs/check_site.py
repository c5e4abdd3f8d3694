"""Check the built site: each link leads to a file and an anchor that exist, and no page loads anything from a server.

Run after mkdocs: ``python -m scripts.docs.check_site [FOLDER]``. mkdocs checks links of Markdown only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[2] / "site"

_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Element → its attribute that the browser loads by itself."""
_CSS_URL = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])(https?:[^'")]+)""")


class Page(HTMLParser):
    """Links, loaded addresses and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what one element refers to."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADED and given.get(_LOADED[tag]) and given.get("rel") != "canonical":
            self.loaded.append(given[_LOADED[tag]])


def problems(site: Path) -> Iterator[str]:
    """Each broken link, and each address of a server that a page or style sheet loads."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site)
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{where}: loads {address}"
        for address in (*page.links, *page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or where.name == "404.html":  # the 404 page has addresses from the root
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{where}: {address} does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {address} has no such anchor"
    for path in sorted(site.rglob("*.css")):
        for address in _CSS_URL.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {address}"


def main(argv: list[str]) -> int:
    """Print the problems; return 1 if there are any, or no site."""
    site = Path(argv[0] if argv else SITE).resolve()
    if not (site / "index.html").is_file():
        print(f"no site in {site}: run nox -s docs")
        return 1
    found = list(problems(site))
    print(
        "\n".join(found)
        if found
        else f"{len(list(site.rglob('*.html')))} pages, all links lead somewhere, nothing is loaded from servers"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

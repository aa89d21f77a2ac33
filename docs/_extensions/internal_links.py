"""Check that each link within the site has an existing target."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


class Page(HTMLParser):
    """Parser of the links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Add the link and the anchor of a tag."""
        for key, value in attrs:
            if key in ("href", "src") and value:
                self.links.add(value)
            elif key == "id" and value:
                self.places.add(value)


def broken(folder: Path) -> list[str]:
    """Return the links without a target, each with its page."""
    pages = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.parts
    }
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.exists() or (known and parts.fragment and unquote(parts.fragment) not in known.places):
                found.append(f"{path.relative_to(folder)}: {link}")
    return found


def _check(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.name == "html":
        for link in broken(Path(app.outdir).resolve()):
            LOGGER.warning("a link leads nowhere: %s", link)


def setup(app: Sphinx) -> dict[str, bool]:
    """Check the pages after the build."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

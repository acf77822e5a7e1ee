"""The documentation site: Sphinx with MyST and furo, offline, strict (``make docs``)."""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "docs")]

import generate  # noqa: E402 - found in the folder named above

from ironauth.version import VERSION  # noqa: E402 - likewise

project = "IronAuth"
author = "The IronAuth developers"
release = version = VERSION

extensions = ["myst_parser"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
# Words that begin with a $ or name a placeholder are no lexer's; without a language nothing is coloured.
highlight_language = "none"

# `make docs-links` asks every other host that a page links to; links between pages are the strict build's. Not asked:
# addresses that are examples, and those that answer a program otherwise than a browser.
linkcheck_ignore = [
    r"https?://([^/]+\.)?(example(\.com|\.org)?|localhost|127\.0\.0\.1)(:\d+)?(/|$)",
    r"https://(TENANT|shop\.eu)\.auth0\.com",
    r"https://cognito-idp\.",
]
linkcheck_timeout = 10  # seconds
linkcheck_retries = 2

html_theme = "furo"
html_title = f"IronAuth {release}"
html_show_sourcelink = False
html_copy_source = False

generate.write_pages(_ROOT / "docs" / "reference")

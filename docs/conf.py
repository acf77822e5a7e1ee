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

html_theme = "furo"
html_title = f"IronAuth {release}"
html_show_sourcelink = False
html_copy_source = False

generate.write_pages(_ROOT / "docs" / "reference")

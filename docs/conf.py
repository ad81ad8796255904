"""The documentation site: `sphinx-build -W -b html docs out/site`."""

from __future__ import annotations

import re
from typing import Any

project = "cosim"
author = "The cosim authors"
extensions = ["myst_parser"]
exclude_patterns = ["README.md"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "alabaster"
html_theme_options = {"description": "Cycle-level judge of mixture-of-experts hardware ideas", "fixed_sidebar": True}
html_show_sourcelink = False
myst_heading_anchors = 3
pygments_style = "default"

# Pages link files of the repository that are no pages: on the site their paths are shown.
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def _show_paths(app: Any, document: str, source: list[str]) -> None:
    del app, document
    source[0] = _OUTSIDE.sub(
        lambda link: link[1] if link[1].startswith("`") else f"{link[1]} (`{link[2][3:]}`)", source[0]
    )


def setup(app: Any) -> dict[str, bool]:
    """Hooks of the build."""
    app.connect("source-read", _show_paths)
    return {"parallel_read_safe": True}

"""Runs the pages of the documentation: every ```pycon block as a doctest, in order, in a folder of the page's own.

A block that follows the line `<!-- file: NAME -->` is written to NAME first, so that what a page shows is what it runs.
"""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(
    r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


def run_page(page: Path) -> doctest.TestResults:
    """Runs one page; what does not come out as printed is reported on standard output."""
    text = page.read_text(encoding="utf-8")
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    names: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in BLOCK.finditer(text):
            if block["file"] is not None:
                Path(block["file"]).write_text(block["text"], encoding="utf-8")
            elif block["language"] == "pycon":
                line = text.count("\n", 0, block.start("text"))
                test = doctest.DocTestParser().get_doctest(block["text"], names, page.name, str(page), line)
                runner.run(test, clear_globs=False)
                names.update(test.globs)
    return runner.summarize(verbose=False)


def main(pages: list[str]) -> int:
    """Exit status 1 when a page does not do what it shows, or shows nothing."""
    status = 0
    for page in pages:
        found = run_page(Path(os.path.abspath(page)))
        print(f"{page}: {found.attempted} examples, {found.failed} failed")
        status |= found.failed > 0 or found.attempted == 0
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

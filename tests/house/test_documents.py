"""What the documents point at exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("[a-z]*/README.md")])
IN_THE_WHEEL = {"cosim/configs", "cosim/include"}
PLACES = ("adapters", "benchmarks", "configs", "cosim", "docs", "ext", "tests", "third_party_scripts", ".ci")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_and_paths_exist(document: Path) -> None:
    text = document.read_text()
    missing = []
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target and not (document.parent / target).exists():
            missing.append(target)
    for name in re.findall(r"`([\w./-]+)`", text):
        if name.split("/")[0] in PLACES and "/" in name and name not in IN_THE_WHEEL and not (ROOT / name).exists():
            missing.append(name)
    assert not missing, f"{document.name} names what is not there: {missing}"


def test_every_page_is_in_the_index_of_the_site() -> None:
    index = (ROOT / "docs" / "index.md").read_text().splitlines()
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README", "index"}
    assert pages <= set(index), f"docs/index.md lacks {sorted(pages - set(index))}"


def test_the_readme_has_its_two_commands() -> None:
    blocks = re.findall(r"<!-- command: (\S+) -->\n```bash\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert [name for name, _ in blocks] == ["install-and-run", "install-and-test"]
    assert all(text.count("\n") == 1 and text.startswith("pip install ") for _, text in blocks)


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks[0]],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "nan" not in run.stdout.lower()

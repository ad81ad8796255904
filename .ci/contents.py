"""Holds what an sdist or wheel contains against the committed list and against the checkout.

usage: contents.py sdist|wheel [ARCHIVE]      without an archive: are all committed files in the list?

Lists: tests/house/expected_sdist.txt and expected_wheel.txt, one pattern a line (`*` stays inside one folder, `**` does
not). Every file must match a pattern and every pattern a file; besides, every committed file that belongs into the
archive must be there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
# where a committed folder goes in the wheel
WHEEL_FOLDERS = {
    "cosim/": "cosim/",
    "configs/": "cosim/configs/",
    "adapters/cosim_adapters/": "cosim_adapters/",
    "ext/include/": "cosim/include/",
}


def pattern_to_regex(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression: `**` any text, `*` any text without a slash."""
    parts = re.split(r"(\*\*|\*)", pattern)
    return re.compile("".join({"**": ".*", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts))


def files_of(kind: str, archive: Path) -> list[str]:
    """The archive's files; an sdist's names without its top folder."""
    if kind == "wheel":
        with zipfile.ZipFile(archive) as wheel:
            return sorted(name for name in wheel.namelist() if not name.endswith("/"))
    with tarfile.open(archive) as sdist:
        names = [member.name for member in sdist.getmembers() if member.isfile()]
    return sorted(str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in names)


def committed_for(kind: str) -> set[str]:
    """Names, in the archive, of the committed files that belong there."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    committed = [name for name in listing.split("\0") if name]
    if kind == "sdist":
        return set(committed)
    return {
        target + name.removeprefix(source)
        for name in committed
        for source, target in WHEEL_FOLDERS.items()
        if name.startswith(source)
    }


def differences(files: list[str], patterns: list[str], committed: set[str]) -> list[str]:
    """One line for every file without a pattern, pattern without a file and committed file left out."""
    regexes = {pattern: pattern_to_regex(pattern) for pattern in patterns}
    lines = [f"not in the list: {name}" for name in files if not any(r.fullmatch(name) for r in regexes.values())]
    lines += [f"nothing matches: {p}" for p, r in regexes.items() if not any(r.fullmatch(name) for name in files)]
    lines += [f"committed, but left out: {name}" for name in sorted(committed.difference(files))]
    return lines


def main(kind: str, archive: Path | None) -> int:
    """Print the differences; 1 when there are any."""
    text = (ROOT / "tests" / "house" / f"expected_{kind}.txt").read_text()
    patterns = [line for line in text.splitlines() if line and not line.startswith("#")]
    committed = committed_for(kind)
    if archive is None:
        surplus = differences(sorted(committed), patterns, committed)
        lines = [line for line in surplus if not line.startswith("nothing matches")]  # an archive has generated files
        print(f"{kind}: {len(committed)} committed files, {len(lines)} differences")
    else:
        files = files_of(kind, archive)
        lines = differences(files, patterns, committed)
        print(f"{archive.name}: {len(files)} files, {archive.stat().st_size} bytes, {len(lines)} differences")
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None))

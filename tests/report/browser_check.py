"""Opens reports in headless Chromium at desk and phone width, light and dark, and looks for what only a browser shows.

usage: browser_check.py --out DIR [REPORT.html ...]

Without reports it renders made-up runs that cover the odd shapes: many policies, a large mesh, no claims, one rung.
Fails on a message in the console, a request for anything outside the page, a page wider than the screen, a figure text
that leaves its drawing or is covered by another, and on a screenshot that is all but empty. Screenshots and a PDF of
the first report stay in DIR.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import synthetic_run
from PIL import Image

from cosim.report.contents import RUNG_ORDER, RunContents
from cosim.report.html import MOST_BYTES, render

WIDTHS = {"desk": 1280, "phone": 390}
SCHEMES = {"light": "1", "dark": "0"}
TALLEST = 14_000
MOST_SHOWN = 20

# Runs inside a copy of the page; what it finds is written into the document, which Chromium then prints.
PROBE = """
<script>
const found = [];
const root = document.documentElement;
document.querySelectorAll("details").forEach(d => { d.open = true; });
if (root.scrollWidth > root.clientWidth + 1) {
  const wide = [...document.querySelectorAll("body *")].filter(e => !e.closest(".table-wrap, nav") &&
    e.getBoundingClientRect().right > root.clientWidth + 1).slice(0, 3).map(e => e.tagName + "." + e.className);
  found.push("page is " + root.scrollWidth + " wide on " + root.clientWidth + ": " + wide.join(", "));
}
for (const svg of document.querySelectorAll("figure svg[viewBox]")) {
  const box = svg.getBoundingClientRect();
  if (box.width < 10 || box.height < 5) { found.push("an empty drawing in " + svg.closest("figure").id); continue; }
  const name = svg.closest("figure").id + ": " + (svg.querySelector("title") || {}).textContent;
  const placed = [];
  for (const text of svg.querySelectorAll("text")) {
    const r = text.getBoundingClientRect();
    if (r.left < box.left - 0.5 || r.right > box.right + 0.5 || r.top < box.top - 0.5 || r.bottom > box.bottom + 2)
      found.push(name + ": text leaves the drawing: " + text.textContent);
    if (text.classList.contains("badge-text")) continue;
    for (const [other, o] of placed)
      if (r.left < o.right - 1 && o.left < r.right - 1 && r.top < o.bottom - 4 && o.top < r.bottom - 4)
        found.push(name + ": texts overlap: " + other + " and " + text.textContent);
    placed.push([text.textContent, r]);
  }
}
const out = document.createElement("pre");
out.id = "probe";
out.textContent = JSON.stringify({height: root.scrollHeight, found: found.slice(0, 40)});
document.body.appendChild(out);
</script>
</body>"""


def made_up() -> dict[str, RunContents]:
    """Runs whose reports are hard to lay out."""
    many = tuple(f"policy_with_a_long_name_{i}" for i in range(8))
    whole = synthetic_run.contents(rungs=("analytic", "analytic:hcrmap", *RUNG_ORDER[1:]))
    return {
        "usual": whole,
        "many": synthetic_run.contents(policies=many, seeds=(1,), batches=4, layers=4),
        "large": synthetic_run.contents(
            policies=("static", "hot_replication"), rungs=("analytic", "link", "flit"), side=16, batches=3, layers=4
        ),
        "torus": synthetic_run.contents(policies=("static",), rungs=("link", "flit"), seeds=(1,), wrap=True),
        "bare": synthetic_run.contents(
            policies=("static",), rungs=("analytic",), seeds=(1,), batches=2, layers=2, with_claims=False
        ),
        "slow": dataclasses.replace(
            synthetic_run.contents(policies=("static", "hot_replication"), rungs=("flit",), slowdown=1e5),
            info=dataclasses.replace(
                whole.info, rungs=("flit",), policies=("static", "hot_replication"), profile="oracle"
            ),
        ),
    }


def chromium(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs headless Chromium without network; raises if it fails or takes more than two minutes."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if binary is None:
        raise SystemExit("expected chromium on the PATH, found none (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run(
            [
                binary,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--disable-dev-shm-usage",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                "--virtual-time-budget=4000",
                f"--user-data-dir={profile}",
                *arguments,
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )


def probe(page: Path, width: int) -> tuple[int, list[str]]:
    """The height of the page at a width, and all that console and layout have to say against it."""
    copy = page.with_suffix(".probe.html")
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", PROBE), encoding="utf-8")
    try:
        ran = chromium(
            f"--window-size={width},2000", "--enable-logging=stderr", "--log-level=0", "--dump-dom", copy.as_uri()
        )
    finally:
        copy.unlink()
    found = [f"console: {line}" for line in ran.stderr.splitlines() if "CONSOLE" in line]
    written = re.search(r'<pre id="probe">(.*?)</pre>', ran.stdout, re.DOTALL)
    if written is None:
        return 0, [*found, "the probe did not run"]
    data = json.loads(html.unescape(written[1]))
    return int(data["height"]), found + [str(text) for text in data["found"]]


def looks_empty(picture: Path) -> str | None:
    """Why a screenshot shows nothing; None if it shows something."""
    with Image.open(picture) as image:
        small = image.convert("L").resize((80, 240))
        shades = small.getcolors(256) or []
        most = max(count for count, _ in shades) / (80 * 240)
    if len(shades) < 20:
        return f"only {len(shades)} shades of grey"
    return f"{most:.0%} of it is one colour" if most > 0.97 else None


def check(page: Path, out: Path, pictures: bool) -> list[str]:
    """Everything wrong with one report; with `pictures` its screenshots and PDF stay in `out`."""
    problems = []
    if page.stat().st_size >= MOST_BYTES:
        problems.append(f"{page.stat().st_size:,} bytes, expected fewer than {MOST_BYTES:,}")
    for place, width in WIDTHS.items():
        height, found = probe(page, width)
        problems += [f"{place}: {text}" for text in found]
        for scheme in SCHEMES if pictures else ():
            picture = out / f"{page.stem}-{place}-{scheme}.png"
            problems += [f"{place}, {scheme}: {text}" for text in photograph(page, picture, width, height, scheme)]
    if pictures:
        printed = out / f"{page.stem}.pdf"
        chromium("--no-pdf-header-footer", f"--print-to-pdf={printed}", page.as_uri())
        if printed.stat().st_size < 20_000:
            problems.append(f"print: a PDF of only {printed.stat().st_size:,} bytes")
    return problems


def photograph(page: Path, picture: Path, width: int, height: int, scheme: str) -> list[str]:
    """Takes one screenshot; what speaks against it."""
    picture.unlink(missing_ok=True)
    chromium(
        f"--window-size={width},{min(max(height, 800), TALLEST)}",
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        f"--screenshot={picture}",
        page.as_uri(),
    )
    if not picture.exists():
        return ["no screenshot"]
    reason = looks_empty(picture)
    return [f"the screenshot looks empty: {reason}"] if reason else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where screenshots go")
    parser.add_argument("--all-pictures", action="store_true", help="pictures of every report, not only of the first")
    parser.add_argument("reports", nargs="*", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    pages = [page.resolve() for page in given.reports]
    if not pages:
        for name, contents in made_up().items():
            pages.append((given.out / f"{name}.html").resolve())
            pages[-1].write_text(render(contents), encoding="utf-8")
    bad = 0
    for number, page in enumerate(pages):
        problems = check(page, given.out, pictures=number == 0 or given.all_pictures)
        bad += bool(problems)
        print(f"{page.name}: {'ok' if not problems else f'{len(problems)} problems'}")
        for text in problems[:MOST_SHOWN]:
            print(f"  {text}")
        if len(problems) > MOST_SHOWN:
            print(f"  and {len(problems) - MOST_SHOWN} more")
    print(f"{len(pages)} reports opened, {bad} with problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

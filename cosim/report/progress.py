"""Progress of a long run: a bar with an estimate on a terminal, a few plain lines elsewhere.

What is shown here never enters a result, so this is one of the few places that read the clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


def duration(seconds: float) -> str:
    """A time span in the two largest units that matter: `7 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, rest = divmod(round(whole / 60), 60)
    return f"{hours} h" + (f" {rest} min" if rest else "")


class RunProgress:
    """Shows `done` of `total` and the time left; a context manager that is called as `progress(done, total, note)`.

    On a terminal a bar is redrawn in place. Elsewhere one line says what starts and how long it should take, and one
    follows each time another tenth is done, without control codes. The bar goes to `stream`, standard error by default,
    so that standard output stays a clean result.
    """

    def __init__(
        self,
        title: str,
        estimate_seconds: float | None = None,
        stream: TextIO | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._estimate = estimate_seconds
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._start = clock()
        self._tenth = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> RunProgress:
        self._start = self._clock()
        expected = "" if self._estimate is None else f", estimated {duration(self._estimate)}"
        if self._stream.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                TextColumn("[dim]{task.fields[note]}[/dim]"),
                console=Console(file=self._stream),
                transient=True,
            )
            left = "" if self._estimate is None else f"about {duration(self._estimate)} left"
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None, left=left, note="")
        else:
            self._line(f"{self._title}: started{expected}")
        return self

    def __call__(self, done: float, total: float, note: str = "") -> None:
        """Reports that `done` of `total` units of work are finished; `note` says what is being worked on."""
        fraction = min(1.0, done / total) if total > 0 else 1.0
        left = self._left(fraction)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, left=left, note=note)
            return
        tenth = int(fraction * 10 + 1e-9)
        if tenth > self._tenth:
            self._tenth = tenth
            parts = [part for part in (left, note) if part]
            self._line(f"{self._title}: {tenth * 10} %" + (f" ({'; '.join(parts)})" if parts else ""))

    def _left(self, fraction: float) -> str:
        if fraction >= 1:
            return ""
        elapsed = self._clock() - self._start
        if fraction >= 0.02:
            return f"about {duration(elapsed * (1 - fraction) / fraction)} left"
        if self._estimate is not None:
            return f"about {duration(self._estimate * (1 - fraction))} left"
        return ""

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elapsed = duration(self._clock() - self._start)
        if error is None:
            self._line(f"{self._title}: done in {elapsed}")
        elif isinstance(error, KeyboardInterrupt):
            self._line(f"{self._title}: interrupted after {elapsed}")
        else:
            self._line(f"{self._title}: stopped after {elapsed}")

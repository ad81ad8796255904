"""Checks in a child process, so that a plug-in that crashes or never returns harms nobody."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from cosim.conformance.request import CheckRequest

__all__ = ["Outcome", "check_plugin"]


@dataclass(frozen=True)
class Outcome:
    """One check: ``ok``, ``failed``, or ``none`` where there is nothing to check."""

    name: str
    status: str
    text: str


def check_plugin(request: CheckRequest, timeout_seconds: float = 600.0) -> Iterator[Outcome]:
    """The outcomes of all checks, each as soon as it is known.

    Args:
        request: what to check.
        timeout_seconds: after which a check counts as failed.
    """
    first = 0
    while True:
        done = 0
        died = False
        for outcome in _from_child(request, first, timeout_seconds):
            yield outcome
            done += 1
            died = outcome.text.startswith(_DIED)
            if outcome.name == "load" and outcome.status == "failed":
                return
        if not died:
            return
        first += done  # what comes after the check that took the process with it


_DIED = "the process of the check "


def _from_child(request: CheckRequest, first: int, timeout_seconds: float) -> Iterator[Outcome]:
    read, write = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "cosim.conformance.child", request.to_json(), str(first), str(write)],
        pass_fds=(write,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    os.close(write)
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_pump, args=(read, lines), daemon=True).start()
    running = ""
    try:
        while True:
            try:
                line = lines.get(timeout=timeout_seconds)
            except queue.Empty:
                yield Outcome(running or "load", "failed", f"{_DIED}gave no answer in {timeout_seconds:g} s")
                return
            if line is None:
                break
            said = json.loads(line)
            if "begins" in said:
                running = said["begins"]
                continue
            running = ""
            yield Outcome(said["ends"], said["status"], said["text"])
        errors = child.communicate()[1]
        if child.returncode < 0:
            name = signal.Signals(-child.returncode).name
            yield Outcome(running or "load", "failed", f"{_DIED}crashed with {name}")
        elif child.returncode != 0:
            last = errors.strip().splitlines()[-1:] or ["no message"]
            yield Outcome(running or "load", "failed", f"{_DIED}ended with status {child.returncode}: {last[0]}")
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()


def _pump(read: int, lines: queue.Queue[str | None]) -> None:
    with os.fdopen(read, encoding="utf-8") as stream:
        for line in stream:
            lines.put(line)
    lines.put(None)

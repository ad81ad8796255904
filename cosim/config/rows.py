"""Tables of integers that a file may hold itself or name a CSV file for."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from cosim.config.spec import refuse

__all__ = ["rows_of"]


def _cell(text: str | None) -> int | str | None:
    text = (text or "").strip()
    return int(text) if text.lstrip("-").isdigit() and text.isascii() else text or None


def rows_of(value: Any) -> Any:
    """``value``, or the rows of the CSV file that it names: a mapping per line, empty cells left out."""
    if not isinstance(value, str):
        return value
    try:
        with Path(value).expanduser().open(newline="", encoding="utf-8-sig") as file:
            found = list(csv.DictReader(file, strict=True))
    except OSError as error:
        raise refuse("a CSV file that can be read", f"{value!r} ({error.strerror or error})") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise refuse("a CSV file", f"{value!r} ({error})") from None
    if any(None in row for row in found):
        line = next(i for i, row in enumerate(found) if None in row) + 2
        raise refuse("as many cells as column names", f"more in line {line} of {value!r}")
    return [{key.strip(): cell for key, text in row.items() if (cell := _cell(text)) is not None} for row in found]

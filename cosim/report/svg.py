"""A small writer of inline SVG: text that stays text, colours that come from the page's style sheet.

Drawing by hand keeps a figure to a few kilobytes, lets light, dark and print share one drawing, and gives the same
bytes everywhere. Coordinates are CSS pixels at a width that is readable on a phone; a figure is made of such panels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr


def number(value: float) -> str:
    """A coordinate with at most two decimals and no trailing zeros."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


class Drawing:
    """One SVG panel with a title and a description for those who do not see it."""

    def __init__(self, width: float, height: float, title: str, description: str, name: str) -> None:
        """`name` is the panel's id in the page; it must be unique there."""
        self.width = width
        self.height = height
        self._parts: list[str] = []
        self._title = title
        self._description = description
        self._name = name

    @property
    def shapes(self) -> int:
        """How many elements were drawn."""
        return len(self._parts)

    def _add(self, tag: str, attributes: dict[str, str | float | None], text: str | None, hint: str | None) -> None:
        shown = "".join(
            f" {key.replace('_', '-')}={quoteattr(value if isinstance(value, str) else number(value))}"
            for key, value in attributes.items()
            if value is not None
        )
        inner = ("" if hint is None else f"<title>{escape(hint)}</title>") + ("" if text is None else escape(text))
        self._parts.append(f"<{tag}{shown}>{inner}</{tag}>" if inner else f"<{tag}{shown}/>")

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        css: str,
        *,
        radius: float | None = None,
        hint: str | None = None,
    ) -> None:
        """A rectangle of class `css`; `hint` is shown on hover and read by screen readers."""
        self._add("rect", {"x": x, "y": y, "width": width, "height": height, "rx": radius, "class": css}, None, hint)

    def line(self, x1: float, y1: float, x2: float, y2: float, css: str, *, hint: str | None = None) -> None:
        """A straight line of class `css`."""
        self._add("line", {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "class": css}, None, hint)

    def polygon(self, points: Sequence[tuple[float, float]], css: str, *, hint: str | None = None) -> None:
        """A filled polygon of class `css`."""
        self._add("polygon", {"points": _points(points), "class": css}, None, hint)

    def polyline(self, points: Sequence[tuple[float, float]], css: str, *, hint: str | None = None) -> None:
        """An open line through `points` of class `css`."""
        self._add("polyline", {"points": _points(points), "class": css}, None, hint)

    def path(self, d: str, css: str, *, hint: str | None = None) -> None:
        """A path of class `css`."""
        self._add("path", {"d": d, "class": css}, None, hint)

    def circle(self, x: float, y: float, radius: float, css: str, *, hint: str | None = None) -> None:
        """A circle of class `css`."""
        self._add("circle", {"cx": x, "cy": y, "r": radius, "class": css}, None, hint)

    def text(self, x: float, y: float, text: str, css: str = "", *, anchor: str = "start", turn: float = 0) -> None:
        """Text of class `css` whose `anchor` (start, middle, end) sits at (x, y), turned by `turn` degrees."""
        self._add(
            "text",
            {
                "x": x,
                "y": y,
                "class": css or None,
                "text-anchor": None if anchor == "start" else anchor,
                "transform": f"rotate({number(turn)} {number(x)} {number(y)})" if turn else None,
            },
            text,
            None,
        )

    def render(self) -> str:
        """The `<svg>` element."""
        title, description = f"{self._name}-t", f"{self._name}-d"
        return (
            f'<svg viewBox="0 0 {number(self.width)} {number(self.height)}" role="img" '
            f'aria-labelledby="{title} {description}"><title id="{title}">{escape(self._title)}</title>'
            f'<desc id="{description}">{escape(self._description)}</desc>' + "".join(self._parts) + "</svg>"
        )


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in points)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) that span [low, high], at most `most` + 1 of them."""
    span = high - low
    if span <= 0:
        return [low]
    raw = span / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


class Axis:
    """A linear map from values to pixels."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return self.start
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def text_width(text: str, size: float = 12) -> float:
    """A generous guess of a text's width in pixels: for leaving room, not for placing."""
    return len(text) * size * 0.58

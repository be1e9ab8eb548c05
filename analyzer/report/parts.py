"""Where TTFT went, as one bar: parts that follow each other, and what is left of the mean."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
from markupsafe import Markup

from analyzer.language import N_, _
from analyzer.report import fmt
from analyzer.report.charts import element

# Column of the view, what it is called, CSS class; in the order in which a request goes through them.
_PARTS = (
    ("queue_s", N_("waiting in the queue"), "queue"),
    ("prefill_s", N_("prefill"), "prefill"),
    ("transfer_s", N_("KV transfer"), "transfer"),
    ("rest_s", N_("the rest"), "rest"),
)
_HEIGHT = 22


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the mean TTFT, in seconds."""

    label: str
    seconds: float
    style: str


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a mean TTFT that is known as a whole."""

    uid: str
    parts: tuple[Part, ...]

    @property
    def total(self) -> float:
        """The length of the bar, in seconds."""
        return sum(p.seconds for p in self.parts)


def ttft_parts(con: duckdb.DuckDBPyConnection, instance: str, uid: str) -> Parts | None:
    """The parts of TTFT in the worst incident; None unless the whole is known and they fit into it."""
    row = con.execute(
        """
        SELECT queue_s, prefill_s, transfer_s, rest_s
        FROM q02_ttft_split
        WHERE instance IS NOT DISTINCT FROM ? AND incident = 1 AND ttft_mean_s > 0 AND coalesce(over_s, 0) = 0
        """,
        [instance or None],
    ).fetchone()
    if row is None:
        return None
    found = [Part(_(label), value, style) for (_column, label, style), value in zip(_PARTS, row, strict=True) if value]
    return Parts(uid, tuple(found)) if len(found) > 1 else None


def render_parts(bar: Parts) -> Markup:
    """The bar as SVG, as wide as its place; each part's name stands in the legend beside it."""
    drawn = []
    left = 0.0
    for part in bar.parts:
        wide = part.seconds / bar.total * 100
        hint = element("title", None, f"{part.label}: {fmt.duration(part.seconds)}")
        place = {"x": f"{left:.2f}%", "y": 0, "width": f"{wide:.2f}%", "height": _HEIGHT}
        drawn.append(element("rect", {"class": f"part s-{part.style}", **place}, hint))
        left += wide
    named = fmt.listed(f"{p.label} {fmt.duration(p.seconds)}" for p in bar.parts)
    return element(
        "svg",
        {"class": "parts", "role": "img", "width": "100%", "height": _HEIGHT, "aria-labelledby": f"{bar.uid}-t {bar.uid}-d"},
        element("title", {"id": f"{bar.uid}-t"}, _("The mean TTFT and its parts")),
        element("desc", {"id": f"{bar.uid}-d"}, named),
        *drawn,
    )


def part_swatch(part: Part) -> Markup:
    """The legend's sample of a part."""
    sample = element("rect", {"class": f"part s-{part.style}", "width": 14, "height": 10})
    return element("svg", {"class": "swatch", "width": 14, "height": 10, "aria-hidden": "true"}, sample)

"""What the page carries for its charts: the Bokeh document, the data of all instances, and the words the script shows.

All three are JSON that may stand in a script element. The same input gives the same bytes: Bokeh's own ids, which count
up over the life of the process, are replaced by numbers in the order of appearance.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.document import Document
from markupsafe import Markup
from numpy.typing import NDArray

from analyzer.language import _, ngettext
from analyzer.report import fmt
from analyzer.report.explore.figures import Chart, Drawing, charts_of, drawings, new_frame
from analyzer.report.explore.model import Charted, Column, Tables
from analyzer.report.explore.parts import part_drawings, part_notes, part_tables
from analyzer.report.explore.whole import Explore

# No value of a packed column of 16 bits: it stands for NaN.
_GAP = 65_535
_STEPS_MS = (60_000.0, 10_000.0, 5_000.0, 1_000.0, 100.0, 1.0)
_STEPS = (1.0, 0.1, 0.01, 0.001, 0.0001)
_BOKEH_ID = re.compile(r"p\d+")


@dataclass(frozen=True, slots=True)
class ExplorePage:
    """What the template needs: the charts with their legends, and three blocks of JSON, safe inside a script element."""

    charts: tuple[Chart, ...]
    document: Markup
    data: Markup
    words: Markup
    moments: Markup


def explore_page(explore: Explore) -> ExplorePage:
    """Everything of the explore section, in the language of the moment."""
    charts = charts_of(explore)
    frame = new_frame()
    drawn = (*drawings(charts, frame), *part_drawings(explore, frame))
    document, models = _document(drawn)
    words = {
        **models,
        "charts": [_chart_words(chart) for chart in charts],
        "instances": [_instance_words(one, part_notes(explore, one.anchor)) for one in explore.charted],
        "units": _unit_words(),
        "say": {
            "none": _("none"),
            "under": _("under {share}"),
            "over": _("over {share}"),
            "longer": _("longer than can be told"),
        },
    }
    return ExplorePage(
        charts,
        document=script_json(document),
        data=script_json(_packed_tables(_tables(explore))),
        words=script_json(words),
        moments=script_json(explore.moments.document() if explore.moments is not None else {}),
    )


def script_json(value: object) -> Markup:
    """JSON that can stand in `<script type="application/json">`: no `<`, so neither an end tag nor a comment can begin."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


def _document(drawn: Sequence[Drawing]) -> tuple[dict[str, Any], dict[str, object]]:
    """The document, and where the script finds what in it: the ids of the roots by the keys of their places, those of
    named models by name, and the tags of every model that has a colour.
    """
    document = Document()
    for one in drawn:
        document.add_root(one.root)
    content: dict[str, Any] = dict(document.to_json(deferred=False))
    numbers: dict[str, str] = {}
    _renumber(content, numbers)
    models = sorted(document.models, key=lambda model: int(numbers[model.id][1:]))
    named: dict[str, list[str]] = {}
    for model in models:
        if model.name:
            named.setdefault(model.name, []).append(numbers[model.id])
    return content, {
        "roots": {one.key: numbers[one.root.id] for one in drawn},
        "named": named,
        "coloured": [(numbers[model.id], list(model.tags)) for model in models if model.tags],
    }


def _renumber(value: Any, numbers: dict[str, str]) -> None:
    """Give every model's id a number in the order of appearance, in place."""
    if isinstance(value, dict):
        own = value.get("id")
        if isinstance(own, str) and _BOKEH_ID.fullmatch(own):
            value["id"] = numbers.setdefault(own, f"m{len(numbers)}")
        for part in value.values():
            _renumber(part, numbers)
    elif isinstance(value, list):
        for part in value:
            _renumber(part, numbers)


def _tables(explore: Explore) -> dict[str, dict[str, Mapping[str, Column]]]:
    tables: dict[str, dict[str, Mapping[str, Column]]] = {}
    for one in explore.charted:
        own: dict[str, Mapping[str, Column]] = {}
        for key, curve in one.curves.items():
            own[key] = {"x": curve.x, "y": curve.y} if curve.low is None else {"x": curve.x, "y": curve.y, "low": curve.low}
        for key, bars in one.bars.items():
            own[key] = {"left": bars.left, "right": bars.right, "count": bars.count}
        tables[one.anchor] = own
    for anchor, sources in part_tables(explore).items():
        tables.setdefault(anchor, {}).update(sources)
    return tables


def _packed_tables(tables: Tables) -> dict[str, Any]:
    return {
        anchor: {source: {name: packed(column) for name, column in columns.items()} for source, columns in sources.items()}
        for anchor, sources in tables.items()
    }


def packed(column: Column) -> object:
    """A column as the script unpacks it: texts as they are, or as numbers into a list of them (`t`) where many are the
    same; numbers as base64 of a little-endian array.

    `k` is the array's kind. Of 16-bit whole numbers a value is b + s * n, and the highest n stands for NaN; that is
    taken wherever it loses nothing.
    """
    if isinstance(column, list):
        texts = list(dict.fromkeys(column))
        if 2 * len(texts) >= len(column) or len(texts) >= _GAP:
            return column
        places = {text: n for n, text in enumerate(texts)}
        return {"k": "t", "t": texts, "d": b64encode(np.array([places[text] for text in column], dtype="<u2").tobytes()).decode()}
    small = _small(column)
    if small is not None:
        base, step, numbers = small
        return {"k": "u2", "b": base, "s": step, "d": b64encode(numbers.astype("<u2").tobytes()).decode()}
    kind = f"{column.dtype.kind}{column.dtype.itemsize}"
    return {"k": kind, "d": b64encode(column.astype(column.dtype.newbyteorder("<")).tobytes()).decode()}


def _small(column: NDArray[Any]) -> tuple[float, float, NDArray[np.float64]] | None:
    """The smallest value, the step and whole numbers of a column that can be told exactly so."""
    wide = column.astype(np.float64)
    known = wide[~np.isnan(wide)]
    if len(known) == 0 or not np.isfinite(known).all():
        return None
    times = column.dtype == np.float64
    base = float(known.min()) if times else 0.0
    for step in _STEPS_MS if times else _STEPS:
        numbers = np.round((wide - base) / step)
        if not 0 <= np.nanmin(numbers) <= np.nanmax(numbers) < _GAP:
            continue
        if np.array_equal((base + numbers * step).astype(column.dtype), column, equal_nan=True):
            return base, step, np.where(np.isnan(numbers), _GAP, numbers)
    return None


def _chart_words(chart: Chart) -> dict[str, object]:
    return {
        "key": chart.key,
        "unit": chart.unit,
        "top": chart.top,
        # Percentiles have a gap where nothing arrived, gauges where nothing was told.
        "gap": _("no value") if chart.key in ("ttft", "hit", "ratio") else fmt.not_reported(),
        "lines": [{"key": line.key, "label": line.label, "kind": line.kind, "colour": line.colour} for line in chart.lines],
    }


def _instance_words(one: Charted, notes: Mapping[str, str]) -> dict[str, object]:
    return {
        "anchor": one.anchor,
        "start": one.start,
        "end": one.end,
        "first": one.first,
        "incident": one.incident,
        "others": one.others,
        "rules": [[rule.at, rule.label] for rule in one.rules if one.start <= rule.at <= one.end],
        "notes": {**one.notes, **notes},
    }


def _unit_words() -> dict[str, list[str]]:
    """What one and what several of a unit are called, with `{n}` for the number."""
    return {
        "requests": [ngettext("{n} request", "{n} requests", n, n="{n}") for n in (1, 2)],
        "tokens": [ngettext("{n} token", "{n} tokens", n, n="{n}") for n in (1, 2)],
        "tokens/s": [_("{n} tokens/s", n="{n}")] * 2,
    }

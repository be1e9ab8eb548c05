"""The panels of a timeline, and what each one's note says of its numbers' origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from analyzer.language import _, ngettext
from analyzer.report import fmt, words
from analyzer.report.buckets import Bucket, breaks
from analyzer.report.charts import MAX_POINTS, Level, Panel, Series, segments
from analyzer.report.told import Spell, Told
from analyzer.report.ttft_panel import pending_in, ttft_panel

MAX_SPELLS = 3
_STATES = ("l1_used_tokens", "l1_evictable_tokens", "l1_available_tokens")


def panels(buckets: Sequence[Bucket], told: Told, engine: str | None, notes: list[str], *, limit: int = MAX_POINTS) -> tuple[Panel, ...]:
    """The panels that have anything to draw; what has nothing is named in `notes`. A curve has at most `limit` points."""
    times = [(b.start, b.end) for b in buckets]
    stops = breaks(buckets)

    def curve(name: str, label: str, style: str, *, filled: bool = False) -> Series:
        return Series(label, style, segments(times, [b.get(name) for b in buckets], stops, limit=limit), filled=filled)

    drawn = [
        ttft_panel(buckets, told, limit=limit),
        Panel(
            "requests",
            _("Requests waiting and running"),
            "requests",
            (curve("waiting", _("waiting"), "waiting", filled=True), curve("running", _("running"), "running")),
            note=_load_note(buckets, told),
        ),
        _kv_panel(buckets, times, stops, curve, told, engine, notes),
        Panel("prompt", _("Prefill throughput"), "tokens/s", (curve("prompt_tps", _("prompt"), "prompt"),), height=70),
        Panel("gen", _("Decode throughput"), "tokens/s", (curve("gen_tps", _("generation"), "gen"),), height=70),
    ]
    found = []
    for panel in drawn:
        series = tuple(s for s in panel.series if s.segments)
        if series:
            found.append(replace(panel, series=series))
        elif panel.key != "ttft":
            notes.append(_("{panel}: not reported in this time range.", panel=panel.title))
        elif pending := pending_in(buckets, told):
            notes.append(
                _(
                    "Time to first token: none, since all {n} requests were pending when the capture ended.",
                    n=fmt.number(pending),
                )
            )
        else:
            notes.append(_("Time to first token: not recorded, and the queue wait could not be estimated."))
    return tuple(found)


def _load_note(buckets: Sequence[Bucket], told: Told) -> str:
    """Which of log and metrics is drawn where, and what the other one shows at its own moments."""
    said = [_("Highest in each bucket, summed over ranks.")]
    if not buckets:
        return said[0]
    spells = [s for s in told.spells if s.end >= buckets[0].start and s.start < buckets[-1].end]
    first = [s for s in spells if s.preferred]
    second = [s for s in spells if not s.preferred]
    if first:
        said.append(_("Read from {basis} ({reports}).", **_basis(first)))
    if second:
        said.append(_elsewhere(first, second))
        said.append(_other_peaks(told))
    if any(s.basis == "metrics" for s in spells):
        said.append(_("What rose and fell between two scrapes is not seen."))
    return fmt.sentences(said)


def _elsewhere(first: Sequence[Spell], second: Sequence[Spell]) -> str:
    """When the source that is not preferred is drawn, and which one says nothing then."""
    fields = _basis(second)
    where = fmt.listed(fmt.clock_span(fmt.from_epoch(s.start), fmt.from_epoch(s.end)) for s in second[:MAX_SPELLS])
    more = len(second) - MAX_SPELLS
    if more > 0:
        where = ngettext("{spans} and {n} more time", "{spans} and {n} more times", more, spans=where, n=fmt.number(more))
    if not first:
        return _("Read from {basis} ({reports}) {where}.", where=where, **fields)
    if first[0].basis == "log":
        return _("Read from {basis} ({reports}) {where}, where the log says nothing.", where=where, **fields)
    return _("Read from {basis} ({reports}) {where}, where the metrics say nothing.", where=where, **fields)


def _basis(spells: Sequence[Spell]) -> dict[str, str]:
    return {"basis": words.basis(spells[0].basis), "reports": fmt.plural(sum(s.reports for s in spells), "report")}


def _other_peaks(told: Told) -> str:
    """The highest values of the source that is not preferred, over the whole capture."""
    other = told.other or {}
    shown = []
    if other.get("other_running") is not None:
        shown.append(_("{requests} running", requests=fmt.measure(other["other_running"], "requests")))
    if other.get("other_waiting") is not None:
        shown.append(_("{requests} waiting", requests=fmt.measure(other["other_waiting"], "requests")))
    if other.get("other_kv_usage") is not None:
        shown.append(_("KV usage {share}", share=fmt.share(other["other_kv_usage"])))
    return _("There it shows at most {peaks}.", peaks=fmt.listed(shown)) if shown else ""


def _kv_panel(
    buckets: Sequence[Bucket],
    times: Sequence[tuple[float, float]],
    stops: Sequence[int],
    curve: Callable[..., Series],
    told: Told,
    engine: str | None,
    notes: list[str],
) -> Panel:
    """KV usage, 0..100 % always, over the three states of the pool where all three are known."""
    used: list[float | None] = []
    cached: list[float | None] = []
    for bucket in buckets:
        known = [v for name in _STATES if (v := bucket.get(name)) is not None]
        total = sum(known)
        whole = len(known) == len(_STATES) and total > 0
        used.append(known[0] / total if whole else None)
        cached.append((known[0] + known[1]) / total if whole else None)
    whole_pool = [None if v is None else 1.0 for v in cached]
    if any((b.get("kv_usage") or 0) > 1 for b in buckets):
        notes.append(_("KV usage above 100 % was reported; it is drawn at 100 %."))
    return Panel(
        "kv",
        _("KV cache"),
        "share",
        (
            Series(_("L1 used: locked by running requests"), "used", segments(times, used, stops), band=True),
            Series(_("L1 evictable: cached prefixes nobody holds"), "evictable", segments(times, cached, stops, low=used), band=True),
            Series(_("L1 available: empty"), "available", segments(times, whole_pool, stops, low=cached), band=True),
            # Where the states are not known, the area below the curve is what running requests hold.
            curve("kv_usage", _("KV usage, fullest rank"), "usage", filled=not any(v is not None for v in used)),
            curve("l2_used_share", _("L2 used, of its own size"), "l2"),
        ),
        top=1.0,
        note=_kv_note(buckets, used, told, engine),
        levels=(Level(1.0, _capacity(buckets)),),
    )


def _capacity(buckets: Sequence[Bucket]) -> str:
    """The pool's size in words, for the line at 100 %."""
    sizes = [v for b in buckets if (v := b.get("l1_capacity_tokens"))]
    if not sizes:
        return _("L1 capacity")
    if min(sizes) == max(sizes):
        return _("L1 capacity: {tokens}", tokens=fmt.measure(round(sizes[0]), "tokens"))
    # Another run may have had another pool.
    return _("L1 capacity: {low} to {high}", low=fmt.number(round(min(sizes))), high=fmt.measure(round(max(sizes)), "tokens"))


def _kv_note(buckets: Sequence[Bucket], used: Sequence[float | None], told: Told, engine: str | None) -> str:
    whole = any(v is not None for v in used)
    usage_only = any(b.get("kv_usage") is not None and v is None for b, v in zip(buckets, used, strict=True))
    notes = []
    if whole:
        size = max((b.get("l1_capacity_tokens") or 0 for b in buckets), default=0)
        notes.append(
            _(
                "Read from the metrics: used, evictable and available (what is left up to 100 %) add up to the pool's {tokens}.",
                tokens=fmt.measure(round(size), "tokens"),
            )
            if size
            else _("Read from the metrics: used, evictable and available (what is left up to 100 %) add up to the pool.")
        )
    if usage_only:
        notes.append(
            _(
                "Where no bands are drawn, usage is the part that running requests hold; how much of the rest is cached and how much "
                "empty is not known."
            )
            if whole
            else _("Usage is the part that running requests hold; how much of the rest is cached and how much empty is not known.")
        )
        notes += map(_, [words.KV_STATES[engine]] if engine in words.KV_STATES else words.KV_STATES.values())
    if any(b.get("l2_used_share") is not None for b in buckets):
        notes.append(_("Room in L2 does not admit requests."))
    elif held := _l2_held(told, buckets):
        notes.append(_("L2 held up to {amount}; its size is not known, so no share is drawn.", amount=held))
        notes.append(_("Room in L2 does not admit requests."))
    return fmt.sentences(notes)


def _l2_held(told: Told, buckets: Sequence[Bucket]) -> str:
    moved = [m for m in told.moved if buckets and buckets[0].start <= m.start < buckets[-1].end]
    tokens = max((m.used_tokens for m in moved if m.used_tokens is not None), default=None)
    if tokens is not None:
        return fmt.measure(tokens, "tokens")
    size = max((m.used_bytes for m in moved if m.used_bytes is not None), default=None)
    return fmt.size(size) if size is not None else ""

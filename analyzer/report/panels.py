"""The panels of a timeline, and what each one's note says of its numbers' origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analyzer.report import fmt, words
from analyzer.report.buckets import Bucket, breaks
from analyzer.report.charts import Panel, Series, segments
from analyzer.report.told import Spell, Told
from analyzer.report.ttft_panel import pending_in, ttft_panel

MAX_SPELLS = 3
_STATES = ("l1_used_tokens", "l1_evictable_tokens", "l1_available_tokens")


def panels(buckets: Sequence[Bucket], told: Told, engine: str | None, notes: list[str]) -> tuple[Panel, ...]:
    """The panels that have anything to draw; what has nothing is named in `notes`."""
    times = [(b.start, b.end) for b in buckets]
    stops = breaks(buckets)

    def curve(name: str, label: str, style: str, *, filled: bool = False) -> Series:
        return Series(label, style, segments(times, [b.get(name) for b in buckets], stops), filled=filled)

    drawn = [
        ttft_panel(buckets, told),
        Panel(
            "requests",
            "Requests waiting and running",
            "requests",
            (curve("waiting", "waiting", "waiting", filled=True), curve("running", "running", "running")),
            note=_load_note(buckets, told),
        ),
        _kv_panel(buckets, times, stops, curve, told, engine, notes),
        Panel("prompt", "Prefill throughput", "tokens/s", (curve("prompt_tps", "prompt", "prompt"),), height=70),
        Panel("gen", "Decode throughput", "tokens/s", (curve("gen_tps", "generation", "gen"),), height=70),
    ]
    found = []
    for panel in drawn:
        series = tuple(s for s in panel.series if s.segments)
        if series:
            found.append(Panel(panel.key, panel.title, panel.unit, series, panel.top, panel.height, panel.note))
        elif panel.key != "ttft":
            notes.append(f"{panel.title}: not reported in this time range.")
        elif pending := pending_in(buckets, told):
            notes.append(f"Time to first token: none, since all {fmt.number(pending)} requests were pending when the capture ended.")
        else:
            notes.append("Time to first token: not recorded, and the queue wait could not be estimated.")
    return tuple(found)


def _load_note(buckets: Sequence[Bucket], told: Told) -> str:
    """Which of log and metrics is drawn where, and what the other one shows at its own moments."""
    text = "Highest in each bucket, summed over ranks."
    if not buckets:
        return text
    spells = [s for s in told.spells if s.end >= buckets[0].start and s.start < buckets[-1].end]
    first = [s for s in spells if s.preferred]
    second = [s for s in spells if not s.preferred]
    if first:
        text += f" Read from {_basis(first)}."
    if second:
        where = [fmt.clock_span(fmt.from_epoch(s.start), fmt.from_epoch(s.end)) for s in second[:MAX_SPELLS]]
        more = f" and {fmt.number(len(second) - MAX_SPELLS)} more times" if len(second) > MAX_SPELLS else ""
        silent = (
            f", where {words.BASES.get(first[0].basis, first[0].basis)} {'says' if first[0].basis == 'log' else 'say'} nothing"
            if first
            else ""
        )
        text += f" Read from {_basis(second)} {', '.join(where)}{more}{silent}."
        text += _other_peaks(told)
    if any(s.basis == "metrics" for s in spells):
        text += " What rose and fell between two scrapes is not seen."
    return text


def _basis(spells: Sequence[Spell]) -> str:
    return f"{words.BASES.get(spells[0].basis, spells[0].basis)} ({fmt.plural(sum(s.reports for s in spells), 'report')})"


def _other_peaks(told: Told) -> str:
    """The highest values of the source that is not preferred, over the whole capture."""
    other = told.other or {}
    shown = [
        f"{fmt.measure(other[key], 'requests')} {word}"
        for key, word in (("other_running", "running"), ("other_waiting", "waiting"))
        if other.get(key) is not None
    ]
    if other.get("other_kv_usage") is not None:
        shown.append(f"KV usage {fmt.share(other['other_kv_usage'])}")
    return f" There it shows at most {', '.join(shown)}." if shown else ""


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
    if any((b.get("kv_usage") or 0) > 1 for b in buckets):
        notes.append("KV usage above 100 % was reported; it is drawn at 100 %.")
    return Panel(
        "kv",
        "KV cache",
        "share",
        (
            Series("L1 used: locked by running requests", "used", segments(times, used, stops), band=True),
            Series("L1 evictable: cached prefixes nobody holds", "evictable", segments(times, cached, stops, low=used), band=True),
            curve("kv_usage", "KV usage, fullest rank", "usage"),
            curve("l2_used_share", "L2 used, of its own size", "l2"),
        ),
        top=1.0,
        note=_kv_note(buckets, used, told, engine),
    )


def _kv_note(buckets: Sequence[Bucket], used: Sequence[float | None], told: Told, engine: str | None) -> str:
    whole = any(v is not None for v in used)
    usage_only = any(b.get("kv_usage") is not None and v is None for b, v in zip(buckets, used, strict=True))
    notes = []
    if whole:
        size = max((b.get("l1_capacity_tokens") or 0 for b in buckets), default=0)
        pool = f"the pool's {fmt.measure(round(size), 'tokens')}" if size else "the pool"
        notes.append(f"Read from the metrics: used, evictable and available (what is left up to 100 %) add up to {pool}.")
    if usage_only:
        where = "Where no bands are drawn, usage" if whole else "Usage"
        hint = words.KV_STATES.get(engine or "", " ".join(words.KV_STATES.values()))
        notes.append(
            f"{where} is the part that running requests hold; how much of the rest is cached and how much empty is not known. {hint}"
        )
    if any(b.get("l2_used_share") is not None for b in buckets):
        notes.append("Room in L2 does not admit requests.")
    elif held := _l2_held(told, buckets):
        notes.append(f"L2 held up to {held}; its size is not known, so no share is drawn. Room in L2 does not admit requests.")
    return " ".join(notes)


def _l2_held(told: Told, buckets: Sequence[Bucket]) -> str:
    moved = [m for m in told.moved if buckets and buckets[0].start <= m.start < buckets[-1].end]
    tokens = max((m.used_tokens for m in moved if m.used_tokens is not None), default=None)
    if tokens is not None:
        return fmt.measure(tokens, "tokens")
    size = max((m.used_bytes for m in moved if m.used_bytes is not None), default=None)
    return fmt.size(size) if size is not None else ""

"""The verdict on the change: what the numbers did, whether the load explains it, and what weakens it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analyzer.comparison import said
from analyzer.comparison.deltas import comparable
from analyzer.comparison.model import Change, Configuration, Delta, Direction, Outcome, SideSummary
from analyzer.language import _, ngettext
from analyzer.report import fmt, words

# A load that differs by more than this explains a difference by itself; one by more than half of it is told.
# The smaller is taken as one, so that A against B and B against A say the same.
LOAD_MOVED = 0.20
_LOAD_TOLD = 0.10
_LENGTHS_MOVED = 0.25
_LENGTH_RATIO = 1.5
_FEW = 100
_MAX_KEYS = 5
_TTFT = ("ttft_p99", "ttft_p95", "ttft_p50")
# Without TTFT: what the queue tells, the most telling first.
_QUEUE = ("incident_share", "queue_wait", "waiting_mean", "waiting_peak")
_OTHER_WAY = {"better": "worse", "worse": "better"}
_NOT_BY_LOAD = ("crash", "restart", "hang", "unschedulable")
_LOST = ("unanswered_share", "error_share")
_TOLD = (*_TTFT, *_QUEUE, "thrown_out_per_1000", "recompute_share", *_LOST, "itl", "hit_share")


def judge(a: SideSummary, b: SideSummary, deltas: Sequence[Delta], configuration: Configuration) -> Change:
    """The verdict on the change from A to B."""
    rows = {d.id: d for d in deltas}
    numbers, lead = _numbers(rows)
    load = load_ratio(rows)
    outcome = numbers
    worse = {"better": a, "worse": b}.get(numbers)
    # A process that died did not die of a number of requests that another one would have served.
    by_load = worse is not None and worse.cause not in _NOT_BY_LOAD
    if (
        by_load
        and load is not None
        and ((numbers == "better" and load < 1 / (1 + LOAD_MOVED)) or (numbers == "worse" and load > 1 + LOAD_MOVED))
    ):
        outcome = "cannot_tell"
    return Change(
        outcome=outcome,
        numbers=numbers,
        sentence=_sentence(a, b, rows, numbers, outcome, lead, load),
        same_cause=a.cause == b.cause,
        reasons=tuple(_reasons(rows, configuration, numbers)),
        weakens=(*_against(rows, numbers), *_weakens(a, b, rows, configuration, load)),
    )


def _numbers(rows: dict[str, Delta]) -> tuple[Outcome, Delta | None]:
    """What the numbers did, and the row that says so best.

    First tokens come first. The queue decides where they do not tell. Requests that failed or got no first token weigh as
    much as percentiles of those that did: where the two go opposite ways, neither is the answer.
    """
    lost = [rows[i] for i in _LOST if rows[i].direction in ("better", "worse")]
    ttft = [rows[i] for i in _TTFT if rows[i].direction in ("better", "worse")]
    queue = [rows[i] for i in _QUEUE if rows[i].direction in ("better", "worse")]
    for told in (ttft, queue):
        ways = {d.direction for d in told}
        if len(ways) == 2:
            # Better here, worse there: no one number says which of the two counts.
            return "no_clear_change", None
        if ways:
            way = told[0].direction
            if any(d.direction == _OTHER_WAY[way] for d in lost):
                return "no_clear_change", None
            return _outcome(way), told[0]
    if lost:
        ways = {d.direction for d in lost}
        return ("no_clear_change", None) if len(ways) == 2 else (_outcome(lost[0].direction), lost[0])
    known = [i for i in (*_TTFT, *_QUEUE) if rows[i].direction == "neither"]
    if not known:
        return "cannot_tell", None
    # A queue that did not move says nothing of a P99 that cannot be told, but there is none that did.
    return "no_clear_change", next((rows[i] for i in known), None)


def _outcome(direction: Direction) -> Outcome:
    return "better" if direction == "better" else "worse"


def load_ratio(rows: dict[str, Delta]) -> float | None:
    """How many times A's load B's was: requests per second, times those tokens per request that both tell. None where no one does."""
    rate = rows["arrival_rate_busy"] if rows["arrival_rate_busy"].ratio is not None else rows["arrival_rate"]
    if rate.ratio is None or not comparable(rate.a, rate.b):
        return None
    # A log tells prompts and no outputs: a third of the prompt tokens is a third of the load all the same.
    lengths = [rows[i] for i in ("prompt_tokens", "output_tokens")]
    told = [d for d in lengths if d.a.value is not None and d.b.value is not None and comparable(d.a, d.b)]
    before = sum(d.a.value or 0.0 for d in told)
    tokens = sum(d.b.value or 0.0 for d in told) / before if before else 1.0
    return rate.ratio * tokens


def _sentence(
    a: SideSummary,
    b: SideSummary,
    rows: dict[str, Delta],
    numbers: Outcome,
    outcome: Outcome,
    lead: Delta | None,
    load: float | None,
) -> str:
    parts = []
    if lead is not None:
        fields = {"what": lead.title, "a": said.value(lead.a, lead.unit), "b": said.value(lead.b, lead.unit)}
        if numbers == "better":
            parts.append(_("{what} went from {a} to {b}, which is better.", **fields))
        elif numbers == "worse":
            parts.append(_("{what} went from {a} to {b}, which is worse.", **fields))
        else:
            parts.append(_("{what} was {a} in A and {b} in B: no more of a difference than chance or small changes make.", **fields))
    elif numbers == "cannot_tell":
        parts.append(_("Neither first tokens nor the queue can be compared: see what is missing in the table."))
    else:
        parts.append(_("Some numbers are better and some worse: {numbers}.", numbers=fmt.listed(_both_ways(rows))))
    parts.append(_causes(a, b))
    if outcome != numbers and load is not None:
        parts.append(
            _("But {load}, which can be the reason by itself: that the change helped is not proven.", load=_load_words(load))
            if numbers == "better"
            else _("But {load}, which can be the reason by itself: that the change harmed is not proven.", load=_load_words(load))
        )
    return fmt.sentences(parts)


def _load_words(load: float) -> str:
    """How far apart the loads are, as the beginning of a sentence."""
    if load < 1:
        return _("B's load was {share} lower than A's", share=fmt.share(1 - load))
    return _("B's load was {ratio} times A's", ratio=fmt.number(float(f"{load:.3g}")))


def _both_ways(rows: dict[str, Delta]) -> Iterator[str]:
    for i in (*_TTFT, *_QUEUE, *_LOST):
        if rows[i].direction in ("better", "worse"):
            yield _("{what} {direction}", what=rows[i].title, direction=said.direction(rows[i].direction)[0])


def _causes(a: SideSummary, b: SideSummary) -> str:
    """What became of the verdict."""
    before, after = words.cause_words(a.cause)[1], words.cause_words(b.cause)[1]
    if a.cause == b.cause:
        return _("The verdict of both is the same: {cause}.", cause=after)
    if b.cause == "none":
        return _("The verdict of A, {before}, is gone: B shows no incident.", before=before)
    if b.cause == "insufficient_data":
        return _("The verdict of A is {before}; B cannot be told.", before=before)
    if a.cause == "none":
        return _("A shows no incident; the verdict of B is {after}.", after=after)
    if a.cause == "insufficient_data":
        return _("A cannot be told; the verdict of B is {after}.", after=after)
    return _("The verdict of A, {before}, is gone; now it is {after}.", before=before, after=after)


def _reasons(rows: dict[str, Delta], configuration: Configuration, numbers: Outcome) -> Iterator[str]:
    for id in _TOLD:
        d = rows[id]
        if d.direction not in ("better", "worse") or d.direction == _OTHER_WAY.get(numbers):
            continue
        yield _(
            "{what}: {a} to {b}, {direction}.",
            what=d.title,
            a=said.value(d.a, d.unit),
            b=said.value(d.b, d.unit),
            direction=said.direction(d.direction)[0],
        )
    # What was set before what followed from it.
    set_ = sorted((f for f in configuration.changed if not f.incidental), key=lambda f: not f.key.startswith("arg."))
    if set_:
        shown = set_[:_MAX_KEYS]
        told = fmt.listed(_("{key} from {a} to {b}", key=f.key.removeprefix("arg."), a=f.a or "", b=f.b or "") for f in shown)
        more = len(set_) - len(shown)
        yield _("Changed settings: {told}, and {n} more.", told=told, n=more) if more else _("Changed settings: {told}.", told=told)
    elif configuration.same:
        yield _("No setting that both sides tell has changed.")


def _against(rows: dict[str, Delta], numbers: Outcome) -> Iterator[str]:
    """What went the other way than the numbers that decided."""
    other = _OTHER_WAY.get(numbers)
    found = [rows[i].title for i in _TOLD if rows[i].direction == other]
    if other and found:
        yield _("Not all went that way; {direction}: {what}.", direction=said.direction(other)[0], what=fmt.listed(found))


def _weakens(a: SideSummary, b: SideSummary, rows: dict[str, Delta], configuration: Configuration, load: float | None) -> Iterator[str]:
    if a.engine != b.engine and a.engine and b.engine:
        yield _("The engines differ: {a} and {b}.", a=a.engine, b=b.engine)
    models = [f for f in configuration.changed if f.key in ("arg.model", "arg.model_path")]
    if models:
        yield _("The models differ: {a} and {b}.", a=models[0].a or "", b=models[0].b or "")
    yield from _load(rows, load)
    if a.seconds and b.seconds and max(a.seconds, b.seconds) > _LENGTH_RATIO * min(a.seconds, b.seconds):
        yield _("The captures differ in length: {a} and {b}.", a=fmt.duration(a.seconds), b=fmt.duration(b.seconds))
    yield from _requests(rows)
    yield from _sources(rows)
    for letter, side in (("A", a), ("B", b)):
        if side.cut:
            yield _("An input of {side} was cut short: it covers only what could be read.", side=letter)
        if side.runs > 1:
            within = configuration.within_a if letter == "A" else configuration.within_b
            yield (
                _("{side} holds {n} process lifetimes, and between them changed: {keys}.",
                  side=letter, n=fmt.number(side.runs), keys=fmt.listed(k.removeprefix("arg.") for k in within[:_MAX_KEYS]))
                if within
                else _("{side} holds {n} process lifetimes; its settings are those of one of them.", side=letter, n=fmt.number(side.runs))
            )  # fmt: skip
    if not configuration.same and not configuration.changed:
        yield _("No setting is told by both sides: what was changed is not known from these captures.")


def _load(rows: dict[str, Delta], load: float | None) -> Iterator[str]:
    if load is None:
        yield _("How much was asked of the two is not told in the same way: a different load cannot be ruled out.")
    elif abs(load - 1) > _LOAD_TOLD:
        # Which of the two it came from stands in the table.
        yield _("{load} (requests per second times tokens, where told).", load=_load_words(load))
    mixed = [
        _("{what} {a} in A, {b} in B", what=d.title, a=said.value(d.a, d.unit), b=said.value(d.b, d.unit))
        for d in (rows[i] for i in ("prompt_tokens", "prompt_tokens_p95", "output_tokens"))
        if d.ratio is not None and comparable(d.a, d.b) and abs(d.ratio - 1) > _LENGTHS_MOVED
    ]
    if mixed:
        yield _("The requests are of another mix: {lengths}.", lengths=_("; ").join(mixed))


def _requests(rows: dict[str, Delta]) -> Iterator[str]:
    for letter, m in (("A", rows["ttft_p50"].a), ("B", rows["ttft_p50"].b)):
        if m.value is not None and m.n is not None and m.n < _FEW:
            yield ngettext(
                "TTFT of {side} is of {n} request only: its percentiles are wide.",
                "TTFT of {side} is of {n} requests only: its percentiles are wide.",
                m.n,
                side=letter,
                n=fmt.number(m.n),
            )
    for letter, m in (("A", rows["unanswered_share"].a), ("B", rows["unanswered_share"].b)):
        if m.n:
            yield ngettext(
                "{n} request of {side} had no first token at the end.",
                "{n} requests of {side} had no first token at the end.",
                m.n,
                side=letter,
                n=fmt.number(m.n),
            )
    unsure = [rows[i].title for i in _TTFT if rows[i].direction == "cannot_tell" and None not in (rows[i].a.value, rows[i].b.value)]
    if unsure:
        yield _("Which way these went cannot be told, see the table: {what}.", what=fmt.listed(unsure))


def _sources(rows: dict[str, Delta]) -> Iterator[str]:
    ttft = rows["ttft_p50"]
    if ttft.a.value is None and ttft.b.value is None:
        yield _("TTFT was recorded by neither side: the queue stands in for it.")
    elif ttft.a.value is None or ttft.b.value is None:
        yield _("TTFT was recorded by one side only.")
    elif not comparable(ttft.a, ttft.b):
        yield _("TTFT is from different sources, which is not compared ({sources}).", sources=said.basis(ttft))
    elif ttft.a.source == "histogram":
        yield _("TTFT is read from histograms: a percentile is known to its bucket only.")
    waiting = rows["waiting_mean"]
    if waiting.difference is not None and waiting.a.source != waiting.b.source:
        yield _(
            "The queue of the two is from different sources ({sources}): what rises and falls between two scrapes is not seen.",
            sources=said.basis(waiting),
        )

"""Retraction: who has to leave when the next decode step does not fit."""

from __future__ import annotations

from analyzer.replay.settings import Sglang
from analyzer.replay.sglang.live import Batch, Live
from analyzer.replay.sglang.pool import Pool


def retract(settings: Sglang, pool: Pool, batch: Batch) -> tuple[list[Live], list[Live]]:
    """Take requests out of `batch` until its next step fits: those to be queued again, and one given up because it does not fit alone.

    Who has made least goes first, among equals who has the longest prompt. What stays is left in the order of staying.
    """
    stay = sorted(batch.reqs, key=lambda r: (r.out, -r.prompt), reverse=True)
    gone: list[Live] = []
    given_up: list[Live] = []
    while len(stay) > 1 and not (gone and _fits(settings, pool, stay)):
        victim = stay.pop()
        _take_out(settings, pool, victim, left=len(stay))
        gone.append(victim)
    if len(stay) == 1 and not pool.make_room(pool.next_step(stay)):
        victim = stay.pop()
        _take_out(settings, pool, victim, left=0)
        given_up.append(victim)
    batch.keep(stay)
    return gone, given_up


def _fits(settings: Sglang, pool: Pool, stay: list[Live]) -> bool:
    if settings.retract_until_steps_fit:
        return pool.free >= len(stay) * settings.retract_decode_steps
    return pool.make_room(pool.next_step(stay))


def _take_out(settings: Sglang, pool: Pool, victim: Live, *, left: int) -> None:
    """Give back its memory at once; nothing of it is kept. Then room is made for some steps of those that are left."""
    pool.release(victim, keep=False)
    pool.make_room(left * settings.retract_decode_steps)
    victim.prefix = victim.shared = victim.end = 0
    victim.chunks = victim.told_blocks = 0
    victim.stale = True

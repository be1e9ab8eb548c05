"""The KV pool both models stand on: used, evictable and available, as the engines count them.

A unit is a token for SGLang and a block for vLLM. Cached pieces ("nodes") belong to a shared
prefix or to one request's own text. A node somebody holds is used; one nobody holds is evictable,
goes only on demand, oldest first, and loses its tail first.
"""

from __future__ import annotations

from collections import OrderedDict

Key = tuple[str, int]


class Pool:
    """Counts only: no addresses, no data."""

    def __init__(self, capacity: int, host_capacity: int = 0, host_after_hits: int = 2) -> None:
        self.capacity = capacity
        self.used = 0
        self.evictable = 0
        self._locked: dict[Key, list[int]] = {}  # size, holders
        self._idle: OrderedDict[Key, int] = OrderedDict()  # size, oldest use first
        self._hits: dict[Key, int] = {}
        self._host: OrderedDict[Key, int] = OrderedDict()
        self._host_capacity = host_capacity
        self._host_after_hits = host_after_hits
        self.host_used = 0
        self.host_peak = 0
        self.evicted = 0  # units ever evicted from the device
        self.stored = 0  # units ever copied to the host tier

    @property
    def available(self) -> int:
        """Units nobody uses and no cached text occupies."""
        return self.capacity - self.used - self.evictable

    @property
    def free(self) -> int:
        """Units that can be had: available, or after eviction."""
        return self.capacity - self.used

    def size(self, key: Key) -> int:
        """Units of this node on the device."""
        return self._locked[key][0] if key in self._locked else self._idle.get(key, 0)

    def host_size(self, key: Key) -> int:
        """Units of this node in the host tier."""
        return self._host.get(key, 0)

    def is_idle(self, key: Key) -> bool:
        """Whether the node is cached and nobody holds it."""
        return key in self._idle

    def alloc(self, n: int) -> bool:
        """Take n units, evicting exactly what is short; all or nothing."""
        if n > self.free:
            return False
        self.evict(n - self.available)
        self.used += n
        return True

    def release(self, n: int) -> None:
        """Give n used units back as available."""
        self.used -= n

    def evict(self, n: int) -> None:
        """Make up to n units available, from the oldest nodes' tails."""
        while n > 0 and self._idle:
            key, size = next(iter(self._idle.items()))
            cut = min(n, size)
            if cut == size:
                del self._idle[key]
            else:
                self._idle[key] = size - cut
            self.evictable -= cut
            self.evicted += cut
            n -= cut

    def lock(self, key: Key) -> None:
        """Hold a node, so that it counts as used."""
        if key in self._locked:
            self._locked[key][1] += 1
            return
        size = self._idle.pop(key, 0)
        self.evictable -= size
        self.used += size
        self._locked[key] = [size, 1]

    def unlock(self, key: Key) -> None:
        """Let go of a node; without holders it becomes evictable."""
        entry = self._locked[key]
        entry[1] -= 1
        if entry[1] == 0:
            del self._locked[key]
            self.used -= entry[0]
            if entry[0]:
                self._idle[key] = entry[0]
                self.evictable += entry[0]

    def grow_locked(self, key: Key, target: int, given: int) -> None:
        """Move `given` used units into a held node of at most `target`; duplicates become available."""
        entry = self._locked[key]
        add = min(given, max(0, target - entry[0]))
        entry[0] += add
        self.used -= given - add

    def store(self, key: Key, size: int, keep: int) -> None:
        """Turn `size` used units into an idle node of `keep` units (the rest becomes available)."""
        self.used -= size
        self.evictable -= self._idle.pop(key, 0)
        if keep > 0:
            self._idle[key] = keep
            self.evictable += keep

    def take_idle(self, key: Key, most: int | None = None) -> int:
        """Take an idle node into use (the caller owns its units now); what is beyond `most` is freed."""
        size = self._idle.pop(key, 0)
        taken = size if most is None else min(size, most)
        self.evictable -= size
        self.used += taken
        return taken

    def hit(self, key: Key) -> None:
        """Count a use; text used often enough is copied to the host tier."""
        self._hits[key] = self._hits.get(key, 0) + 1
        if not self._host_capacity or self._hits[key] < self._host_after_hits:
            return
        new = max(self.size(key), self._host.get(key, 0))
        self.host_used += new - self._host.get(key, 0)
        self.stored += new - self._host.get(key, 0)
        self._host[key] = new
        self._host.move_to_end(key)
        while self.host_used > self._host_capacity:
            self.host_used -= self._host.popitem(last=False)[1]
        self.host_peak = max(self.host_peak, self.host_used)

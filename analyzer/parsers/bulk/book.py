"""The shapes that have been seen, and which of them are lines that no engine wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analyzer.formats.load import registry
from analyzer.parsers.bulk.aside import Sieve
from analyzer.parsers.bulk.lines import Ints
from analyzer.parsers.bulk.shape import Shape, learn

# A shape costs as much as some hundred lines to learn: rare ones are read line by line.
_WORTH_LEARNING = 100
# So many are kept; a log of more has lines of free text that only look like an engine's.
_MOST_FAMILIES = 5_000
_MOST_VARIANTS = 2_000
# Without its digits, a line that begins so or holds such characters is looked at even if nothing in it tells of an engine.
_LOOK = r"^[{\[(DIWEC]|[\x00\x1b]|\r.|^--T|^[A-Z][a-z]{2} {1,3}:|^[^ |]* +\| |^\| "


Key = tuple[str | int, ...]


@dataclass(slots=True)
class Family:
    """Lines that differ in digits only. `variants` are shapes by the digits that must be the same, and the lengths."""

    same: tuple[int, ...] = ()
    long: tuple[int, ...] = ()
    variants: dict[Key, Shape] = field(default_factory=dict)
    hopeless: bool = False
    _seen: dict[Key, int] = field(default_factory=dict)
    _like: Shape | None = None

    def key(self, runs: tuple[str, ...]) -> Key:
        """What a line of these digits has to share with a variant."""
        return (*(runs[n] for n in self.same), *(len(runs[n]) for n in self.long))

    def is_worth_learning(self, key: Key, lines: int) -> bool:
        """True once enough lines were seen that no variant fits: `lines` more of this key."""
        self._seen[key] = self._seen.get(key, 0) + lines
        self.hopeless = self.hopeless or len(self._seen) > _MOST_VARIANTS
        return not self.hopeless and self._seen[key] >= _WORTH_LEARNING

    def learn(self, text: str) -> Shape:
        """The shape of a line that no variant fits."""
        shape = learn(text, self._like)
        if shape.bulk:
            self._like = self._like or shape
        elif not self.variants:
            self.hopeless = True
        same, long = tuple(sorted({*self.same, *shape.same})), tuple(sorted({*self.long, *shape.long}))
        if (same, long) != (self.same, self.long):
            # the lines that are known differ in what had seemed not to matter
            kept = list(self.variants.values())
            self.same, self.long, self._seen = same, long, {}
            self.variants = {self.key(s.runs): s for s in kept}
        self.variants[self.key(shape.runs)] = shape
        return shape


class Book:
    """All families by skeleton and gaps between numbers; `sieve` puts lines aside that need no look."""

    def __init__(self) -> None:
        self._families: dict[tuple[bytes, bytes], Family] = {}
        self._engine: set[bytes] = set()
        # without the digits, as the skeletons are
        literals = [re.escape(re.sub("[0-9]", "", t)) for t in registry().tell_tales]
        self._tells = "|".join((*literals, _LOOK))
        self.sieve = Sieve()

    @property
    def is_full(self) -> bool:
        """True when no more shapes are learned."""
        return len(self._families) >= _MOST_FAMILIES

    def foreign(self, skeletons: list[bytes]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """For each skeleton, True only when no engine wrote a line like it."""
        found = np.zeros(len(skeletons), np.bool_)
        unknown = [i for i, s in enumerate(skeletons) if s not in self._engine]
        if not unknown:
            return found
        tells = pc.match_substring_regex(pa.array([skeletons[i] for i in unknown], pa.large_binary()), self._tells)
        found[unknown] = ~tells.to_numpy(zero_copy_only=False)
        if len(self._engine) < _MOST_FAMILIES:
            self._engine.update(skeletons[i] for i in unknown if not found[i])
        return found

    def family(self, skeleton: bytes, gaps: Ints) -> Family | None:
        """The family of lines with this skeleton, and these gaps in front of their numbers; None for one that is read line by line."""
        key = (skeleton, gaps.tobytes())
        family = self._families.get(key)
        if family is None:
            if self.is_full:
                return None
            family = self._families[key] = Family()
        return None if family.hopeless else family

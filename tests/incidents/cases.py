"""All labelled incidents, wherever they come from."""

from __future__ import annotations

from functools import cache

import generated
import oracle
import recorded
import special
from incident import Incident

PROVIDERS = (recorded, oracle, generated, special)


@cache
def all_incidents() -> tuple[Incident, ...]:
    """Every case of every provider, in their order."""
    return tuple(case for provider in PROVIDERS for case in provider.incidents())

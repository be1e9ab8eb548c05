"""A step time that is given in a file."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path

from analyzer.errors import KvpmError
from analyzer.replay.step_time import StepTime


def step_time_from_json(path: Path) -> StepTime:
    """A step time from a JSON object with StepTime's fields, base_s at least; the others are 0 where they are not there.

    Raises KvpmError on anything else.
    """
    names = [f.name for f in fields(StepTime)]
    hint = f'write {{"base_s": 0.02, "token_s": 0.00003, "request_s": 0.0002}}; also known: {", ".join(names[3:])}'
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KvpmError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    except ValueError as error:
        raise KvpmError(f"{path} is not JSON: {error}", hint=hint) from error
    if not isinstance(read, dict):
        raise KvpmError(f"{path} holds no object with a step's seconds", hint=hint)
    if unknown := sorted(set(read) - set(names)):
        raise KvpmError(f"{path}: {unknown[0]} is no part of a step time", hint=hint)
    values = {name: read.get(name, 0.0) for name in names}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise KvpmError(f"{path}: {name} is {value!r}, not a number of seconds from 0 on", hint=hint)
    if not any(values[name] > 0 for name in ("base_s", "token_s", "request_s")):
        raise KvpmError(f"{path}: a step takes no time", hint=hint)
    return StepTime(**{name: float(value) for name, value in values.items()})

"""Request records of a client, as JSON lines, with prompts and outputs in them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import orjson

START = 1_796_000_000.0
# Prompts have line ends, quotes and other scripts in them, which JSON writes in other ways than plain words.
WORDS = (
    *("the", "server", "answers", "when", "a", "request", "has", "waited", "for", "memory", "of", "its", "own,", "and", "then"),
    *("it", "reads", '"context"', "from", "documents\n", "that", "were", "found.", "Summarize", "them:\n\n", "首先", "说明原因，", "naïve"),
)
LIBRARY_WORDS = 200_000


def records(seed: int) -> Iterator[bytes]:
    """Lines of one request each, about 3 kB, two requests a second."""
    dice = random.Random(seed)
    library = " ".join(dice.choices(WORDS, k=LIBRARY_WORDS))
    send = START
    number = 0
    while True:
        send += dice.expovariate(2.0)
        prompt, output = (_text(library, dice, mean) for mean in (2000, 700))
        ttft, rest = dice.uniform(0.05, 4.0), dice.uniform(1.0, 20.0)
        yield orjson.dumps(
            {
                "id": f"req-{number:08x}",
                "send": round(send, 4),
                "ttft": round(ttft, 4),
                "e2e": round(ttft + rest, 4),
                "prompt_tokens": len(prompt) // 4,
                "output_tokens": len(output) // 4,
                "max_itl": round(rest / 50, 4),
                "error": "timeout" if dice.random() < 0.01 else None,
                "server": "http://127.0.0.1:8000",
                "prompt": prompt,
                "output": output,
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )
        number += 1


def _text(library: str, dice: random.Random, mean: int) -> str:
    """Some of the library, beginning anywhere."""
    begin = dice.randrange(len(library) - 4 * mean)
    return library[begin : begin + dice.randint(mean // 2, mean * 3 // 2)]

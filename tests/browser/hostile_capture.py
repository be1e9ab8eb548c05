"""A capture in which every text that a log, a metric or a record can carry is an attack on the page that shows it."""

from __future__ import annotations

import json
from pathlib import Path

# `ran` is what a script that got through would set.
ATTACKS = {
    "script": "<script>window.ran=1;alert(1)</script>",
    "end": "</script></style></title></textarea><script>window.ran=1</script>",
    "comment": "<!--<script>--><svg/onload=window.ran=1>",
    "quotes": "\"'`><img src=x onerror=window.ran=1 style='position:fixed;inset:0'>",
    "address": "javascript:window.ran=1//",
    "template": "{{7*7}}{%print(7*7)%}${7*7}<%=7*7%>",
    "entity": "&lt;b&gt;&#60;script&#62;&amp;",
    "bidi": "\u202eevil\u2066\u200b\u2028line\ufeff",
    "control": "\x1b[31mred\x1b]8;;http://127.0.0.1/\x07\x7f\x9b31m",
    "lone": "half \\ud800 of a pair \\u0000",
    "long": "L" + "ong<b>" * 17_000,
}
# Several at once, for as few servers as will do; what is cut off of one field begins another.
SERVERS = (
    ("script", "address"),
    ("end",),
    ("comment", "entity"),
    ("quotes", "lone"),
    ("bidi", "template", "control"),
    ("control", "long"),
)
START_MS = 1_796_022_000_000


STEPS = 24


def _log(key: str, attack: str, number: int) -> str:
    """SGLang's log of two minutes with a queue on a full pool; what its start-up line and texts carry is the attack."""
    arguments = dict.fromkeys(("model_path", "served_model_name", "schedule_policy", "kv_cache_dtype", "attention_backend"), attack)
    known = {"port": 30000 + number, "tp_size": 1, "max_total_tokens": 40000, "page_size": 1, attack[:80]: 1}
    # the address names the server, where there is one; one of them is an attack
    known["host"] = attack if key == "end" else "127.0.0.1"
    lines = [f"[2026-11-30 07:00:00] server_args={ {**arguments, **known}!r}"]
    for step in range(STEPS):
        at = f"[2026-11-30 07:{step // 12:02d}:{step % 12 * 5:02d} TP0]"
        lines.append(
            f"{at} Decode batch. #running-req: 20, #token: 39900, token usage: 1.00, cuda graph: True, "
            f"gen throughput (token/s): 300.00, #queue-req: {step}"
        )
        if step % 6 == 0:
            lines.append(f"{at} KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_token_ratio: 0.4000 -> 0.9000")
            lines.append(f"{at} Scheduler hit an exception: {attack}")
        lines.append(f"{at} {attack}")
    return "\n".join(lines) + "\n"


def _metrics(key: str, attack: str) -> str:
    """SGLang's metrics whose labels are the attack; a pod of its own in one of them."""
    label = attack.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    names = ("model_name", "engine_type", "made_up", *(("pod", "instance") if key == "quotes" else ()))
    labels = ",".join(f'{name}="{label}"' for name in names)
    return "".join(
        f"sglang:{name}{{{labels}}} {value} {START_MS + 5000 * step}\n"
        for step in range(STEPS)
        for name, value in (("num_running_reqs", 20), ("num_queue_reqs", step), ("token_usage", 1.0), ("max_total_num_tokens", 40000))
    )


def _records(attack: str, number: int) -> str:
    """A client's requests: ids, errors, models and servers are the attack. A half of a surrogate pair is written as JSON writes it."""
    out = []
    for step in range(20):
        record = {
            "id": f"{attack}{step}",
            "send": START_MS / 1000 + 6 * step,
            "ttft": None if step % 10 == 9 else 0.2 + step,
            "e2e": None if step % 10 == 9 else 5.0 + step,
            "prompt_tokens": 800,
            "output_tokens": 60,
            "error": attack if step % 10 == 9 else None,
            "model": attack,
            "server": f"http://127.0.0.1:{30000 + number}",
            attack[:80]: attack,
        }
        out.append(json.dumps(record).replace("\\\\ud800", "\\ud800").replace("\\\\u0000", "\\u0000"))
    return "\n".join(out) + "\n"


def write_capture(folder: Path) -> list[Path]:
    """The capture's inputs, one folder for each server."""
    inputs = []
    for number, keys in enumerate(SERVERS):
        attack = "".join(ATTACKS[key] for key in keys)
        name = attack.replace("/", "∕")[:80]
        place = folder / f"{number} {name}"
        place.mkdir(parents=True)
        (place / f"server{name}.log").write_text(_log(keys[0], attack, number), encoding="utf-8")
        (place / "metrics.prom").write_text(_metrics(keys[0], attack), encoding="utf-8")
        (place / f"{name}.jsonl").write_text(_records(attack, number), encoding="utf-8")
        inputs.append(place)
    return inputs

"""How fast dumps of metrics and records of requests are read: MB per CPU second, beside orjson alone on the same bytes.

    python benchmarks/json_rate.py [--mb 50] [--only KIND ...] [--seed 1]

Each made-up file is read whole to a stored trace, read by its reader alone, and gone through by orjson, line by
line where it has records on lines; each in a process of its own. A dump of a Prometheus database is no JSON:
orjson gets the same samples as an answer of the API. The figures depend on the machine; the ratios do less.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

START = 1_796_000_000
# A prompt of 2 to 20 kB, as users write them: words, quotes, line breaks, and now and then what is no ASCII.
PROMPT_BYTES = (2_000, 20_000)
WORDS = (
    "the",
    "cache",
    "of",
    "request",
    "model",
    '"tokens"',
    "is",
    "full\n",
    "answer",
    "déjà",
    "how",
    "long",
    "waiting\t",
    "for",
    "a",
    "server",
)
PLAIN_WORDS = tuple(word for word in WORDS if word.isascii())


def text_of(dice: random.Random, size: int) -> str:
    """Made-up text of about `size` bytes; one of three has characters beyond ASCII."""
    words = WORDS if dice.random() < 1 / 3 else PLAIN_WORDS
    return " ".join(dice.choices(words, k=max(1, size // 6)))


def prompt(dice: random.Random) -> str:
    """A prompt."""
    return text_of(dice, dice.randrange(*PROMPT_BYTES))


def labels(number: int) -> dict[str, str]:
    """The label set of one series of a fleet."""
    return {
        "__name__": ("vllm:num_requests_running", "vllm:num_preemptions_total", "vllm:kv_cache_usage_perc")[number % 3],
        "engine": str(number // 3 % 8),
        "instance": f"10.0.{number // 24 // 250}.{number // 24 % 250}:8000",
        "job": "llm",
        "model_name": "demo-8b",
    }


def values(number: int, dice: random.Random, samples: int) -> list[str]:
    """The values of one series, as Prometheus prints them."""
    if number % 3 == 2:
        return [f"{dice.random():.16g}" for _ in range(samples)]
    return [str(n) for n in dice.choices(range(400), k=samples)]


SAMPLES = 5760
"""Samples of a series in a dump: a day, one each 15 seconds."""


def query_range(size: int, dice: random.Random) -> Iterator[str]:
    """One answer of the API, however large."""
    written = number = 0
    yield '{"status":"success","data":{"resultType":"matrix","result":['
    while written < size:
        pairs = [[START + 15 * n, v] for n, v in enumerate(values(number, dice, SAMPLES))]
        text = ("," if number else "") + json.dumps({"metric": labels(number), "values": pairs}, separators=(",", ":"))
        number, written = number + 1, written + len(text)
        yield text
    yield "]}}\n"


def victoriametrics(size: int, dice: random.Random) -> Iterator[str]:
    """An export of VictoriaMetrics, a line for each series."""
    written = number = 0
    while written < size:
        read = [json.loads(v) for v in values(number, dice, SAMPLES)]
        record = {"metric": labels(number), "values": read, "timestamps": [(START + 15 * n) * 1000 for n in range(SAMPLES)]}
        text = json.dumps(record, separators=(",", ":")) + "\n"
        number, written = number + 1, written + len(text)
        yield text


def tsdb_dump(size: int, dice: random.Random) -> Iterator[str]:
    """What `promtool tsdb dump` prints."""
    written = number = 0
    while written < size:
        key = "{" + ", ".join(f'{k}="{v}"' for k, v in labels(number).items()) + "}"
        text = "".join(f"{key} {v} {(START + 15 * n) * 1000}\n" for n, v in enumerate(values(number, dice, SAMPLES)))
        number, written = number + 1, written + len(text)
        yield text


def stamped(size: int, dice: random.Random) -> Iterator[str]:
    """Scrapes of `/federate`: a time on each line."""
    keys = []
    for number in range(800):
        names = labels(number)
        keys.append(names.pop("__name__") + "{" + ",".join(f'{k}="{v}"' for k, v in names.items()) + "}")
    written = scrape = 0
    while written < size:
        text = "".join(f"{key} {v} {(START + 15 * scrape) * 1000}\n" for key, v in zip(keys, values(0, dice, 800), strict=True))
        scrape, written = scrape + 1, written + len(text)
        yield text


def records(make: Callable[[int, random.Random], list[dict[str, Any]]]) -> Callable[[int, random.Random], Iterator[str]]:
    """JSON lines of one kind of record, as many as fill a file."""

    def lines(size: int, dice: random.Random) -> Iterator[str]:
        written = number = 0
        while written < size:
            for record in make(number, dice):
                text = json.dumps(record, ensure_ascii=number % 2 == 0) + "\n"
                written += len(text)
                yield text
            number += 1

    return lines


def export_record(number: int, dice: random.Random) -> list[dict[str, Any]]:
    """SGLang's --export-metrics-to-file."""
    asked = {"rid": f"r{number}", "text": prompt(dice), "sampling_params": {"max_new_tokens": 512}}
    at = START + number * 0.05
    return [
        {
            "request_parameters": json.dumps(asked),
            "id": f"r{number}",
            "finish_reason": {"type": "stop"},
            "prompt_tokens": dice.randrange(500, 5000),
            "completion_tokens": dice.randrange(5, 500),
            "cached_tokens": 128,
            "e2e_latency": 2.5 + dice.random(),
            "queue_time": dice.random(),
            "request_received_ts": at,
            "request_finished_ts": at + 3.5,
            "first_token_latency": 0.5,
            "text": text_of(dice, 1_000),
        }
    ]


def logged_events(number: int, dice: random.Random) -> list[dict[str, Any]]:
    """SGLang's --log-requests as JSON: the two events of one request."""
    rid, body = f"r{number}", {"text": prompt(dice), "sampling_params": {"max_new_tokens": 512}}
    stamp = datetime.fromtimestamp(START + number * 0.05, UTC).replace(tzinfo=None)
    told = {"id": rid, "finish_reason": {"type": "stop"}, "prompt_tokens": 900, "completion_tokens": 64, "e2e_latency": 1.5}
    begun = {"timestamp": stamp.isoformat(timespec="microseconds"), "event": "request.received", "rid": rid, "obj": body}
    return [begun, begun | {"event": "request.finished", "out": {"text": text_of(dice, 1_000), "meta_info": told}}]


def client_record(number: int, dice: random.Random) -> list[dict[str, Any]]:
    """The simplest format of a user's own client."""
    return [
        {
            "id": number,
            "send": START + number * 0.05,
            "ttft": dice.random(),
            "e2e": 1 + dice.random(),
            "prompt_tokens": dice.randrange(500, 5000),
            "output_tokens": dice.randrange(5, 500),
            "error": None,
            "server": "http://127.0.0.1:8112",
            "prompt": prompt(dice),
            "output": text_of(dice, 1_000),
        }
    ]


def chat_record(number: int, dice: random.Random) -> list[dict[str, Any]]:
    """The same with a conversation."""
    record = client_record(number, dice)[0]
    half = record["prompt"]
    return [
        record | {"prompt": [{"role": "system", "content": half[: len(half) // 2]}, {"role": "user", "content": half[len(half) // 2 :]}]}
    ]


def aiperf_record(number: int, dice: random.Random) -> list[dict[str, Any]]:
    """AIPerf's profile export: no text, many metrics."""
    start = (START + number // 20) * 1_000_000_000
    measured = {
        "time_to_first_token": {"value": 100 * dice.random(), "unit": "ms"},
        "request_latency": {"value": 1000 + 100 * dice.random(), "unit": "ms"},
        "inter_chunk_latency": {"value": [dice.random() * 20 for _ in range(200)], "unit": "ms"},
        "output_sequence_length": {"value": 200, "unit": "tokens"},
        "input_sequence_length": {"value": 900, "unit": "tokens"},
    }
    return [{"metadata": {"x_request_id": f"r{number}", "request_start_ns": start, "request_end_ns": start + 10**9}, "metrics": measured}]


def mooncake_record(number: int, dice: random.Random) -> list[dict[str, Any]]:
    """Mooncake's trace: lengths and hashes of blocks."""
    ids = dice.choices(range(100_000), k=20)
    return [{"timestamp": number * 50, "input_length": 10_000, "output_length": 300, "hash_ids": ids}]


def otlp_document(number: int, dice: random.Random) -> list[dict[str, Any]]:
    """The collector's file exporter: a batch of request spans a line."""

    def span(index: int) -> dict[str, Any]:
        start = (START + number) * 10**9 + index
        told = {"time_in_queue": dice.random(), "time_to_first_token": 1 + dice.random(), "e2e": 3 + dice.random()}
        attributes = [{"key": f"gen_ai.latency.{k}", "value": {"doubleValue": v}} for k, v in told.items()]
        attributes.append({"key": "gen_ai.request.id", "value": {"stringValue": f"r{number}-{index}"}})
        attributes.append({"key": "gen_ai.prompt.0.content", "value": {"stringValue": prompt(dice)}})
        return {"name": "llm_request", "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 10**9), "attributes": attributes}

    return [{"resourceSpans": [{"scopeSpans": [{"scope": {"name": "vllm"}, "spans": [span(n) for n in range(10)]}]}]}]


KINDS: dict[str, Callable[[int, random.Random], Iterator[str]]] = {
    "query_range": query_range,
    "tsdb dump": tsdb_dump,
    "VictoriaMetrics": victoriametrics,
    "federate": stamped,
    "client": records(client_record),
    "client, chat": records(chat_record),
    "SGLang export": records(export_record),
    "SGLang log": records(logged_events),
    "AIPerf": records(aiperf_record),
    "Mooncake": records(mooncake_record),
    "OTLP": records(otlp_document),
}
NO_JSON = frozenset(("tsdb dump", "federate"))


def read_kvpm(path: Path) -> int:
    """Rows put into the spool by this project's reader."""
    from analyzer.parsers.kinds import read_source
    from analyzer.parsers.reader import Given, ReadOptions
    from analyzer.sources.opening import TextInput
    from analyzer.trace.spool import Spool

    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
        head = path.open("rb").read(1 << 16).decode("utf-8", "ignore")
        options = ReadOptions(zone=None, year=None, newest=datetime.now(UTC))
        return read_source(Given("s", path.name, path, head, iter(TextInput(path)), Spool(Path(scratch)), options)).counts.records


def ingest_kvpm(path: Path) -> int:
    """Rows of the stored trace."""
    from analyzer import ingest

    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as scratch:
        totals = ingest([str(path)], Path(scratch) / "t.kvtrace").manifest.totals
        return int(totals["samples"] + totals["requests"])


def orjson_lines(path: Path) -> int:
    """Lines parsed by orjson."""
    import orjson

    count = 0
    with path.open("rb") as handle:
        for line in handle:
            orjson.loads(line)
            count += 1
    return count


def orjson_whole(path: Path) -> int:
    """One document parsed by orjson; all of it is in memory."""
    import orjson

    return len(orjson.loads(path.read_bytes())["data"]["result"])


READERS = {"ingest": ingest_kvpm, "read": read_kvpm, "orjson, lines": orjson_lines, "orjson, whole": orjson_whole}


def child(reader: str, path: Path) -> None:
    """Print what one reader took, as JSON: run in a process of its own, whose peak memory is its own."""
    if reader != "ingest":
        # what the command loads is counted with the command only
        import analyzer.parsers.kinds  # noqa: F401
        from analyzer.formats.metrics import lookup

        lookup("", {})
    before = 0.0 if reader == "ingest" else time.process_time()
    rows = READERS[reader](path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": rows, "cpu": time.process_time() - before, "peak": peak}))


def measure(reader: str, path: Path) -> dict[str, float]:
    """What `child` says, in a process of its own."""
    command = [sys.executable, __file__, "--child", reader, str(path)]
    root = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env={"PYTHONPATH": root})
    if done.returncode:
        sys.exit(done.stderr)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def compare(kind: str, size: int, seed: int, folder: Path) -> None:
    """Print the line of one kind of file."""
    path, twin = folder / "dump", folder / "twin"
    path.write_text("".join(KINDS[kind](size, random.Random(seed))), encoding="utf-8")
    if kind in NO_JSON:
        twin.write_text("".join(query_range(size // 3, random.Random(seed))), encoding="utf-8")
    alone = measure("orjson, whole" if kind in ("query_range", *NO_JSON) else "orjson, lines", twin if kind in NO_JSON else path)
    read, ingest = measure("read", path), measure("ingest", path)
    bytes_ = path.stat().st_size
    alone_rate = (twin if kind in NO_JSON else path).stat().st_size / 1e6 / alone["cpu"]
    rates = [bytes_ / 1e6 / said["cpu"] for said in (read, ingest)]
    print(
        f"{kind:<16} {bytes_ / 1e6:>7.1f} {ingest['rows']:>11,.0f} {alone_rate:>9.0f} {rates[0]:>9.0f} {rates[1]:>9.0f} "
        f"{rates[0] / alone_rate:>7.2f} {rates[1] / alone_rate:>7.2f} {ingest['peak']:>9.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast dumps and request records are read, beside orjson alone.")
    parser.add_argument("--mb", type=float, default=50.0, help="size of each file in MB (default: 50)")
    parser.add_argument("--only", nargs="*", choices=list(KINDS), help="these kinds only")
    parser.add_argument("--seed", type=int, default=1, help="seed of the files (default: 1)")
    parser.add_argument("--child", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return
    print(f"{'':<16} {'':>7} {'':>11} {'MB per CPU s':^29} {'of orjson':^15} {'ingest,':>9}")
    print(f"{'kind':<16} {'MB':>7} {'rows':>11} {'orjson':>9} {'read':>9} {'ingest':>9} {'read':>7} {'ingest':>7} {'peak MiB':>9}")
    with tempfile.TemporaryDirectory(prefix="kvpm-bench-") as folder:
        for kind in options.only or KINDS:
            compare(kind, int(options.mb * 1e6), options.seed, Path(folder))


if __name__ == "__main__":
    main()

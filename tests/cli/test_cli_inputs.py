"""The options that say how to read, and a real Prometheus server as an input, from the command line."""

from __future__ import annotations

import gzip
import json
import re
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from live_prometheus import needs_prometheus, prometheus, write_past

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "sample_traces" / "recorded_l1_bound"
DUMP = ROOT / "tests" / "data" / "recorded_l1_bound" / "prometheus" / "tsdb_dump.txt.gz"
SECRET = "s3cr3t-token-9f"

Run = Callable[..., tuple[int, str, str]]


def value(kvpm: Run, trace: str, sql: str) -> str:
    code, out, err = kvpm("sql", trace, sql, "--csv")
    assert code == 0, err
    return out.splitlines()[1]


@pytest.fixture(scope="module")
def recorded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus server that holds what the recorded one held."""
    needs_prometheus()
    folder = tmp_path_factory.mktemp("prometheus")
    by_name: dict[str, list[str]] = {}
    with gzip.open(DUMP, "rt") as lines:
        for line in lines:
            found = re.match(r'\{__name__="([^"]+)", (.*)\} (\S+) (\d+)$', line)
            assert found
            by_name.setdefault(found[1], []).append(f"{found[1]}{{{found[2].replace(', ', ',')}}} {found[3]} {int(found[4]) / 1000}")
    text = [line for name in sorted(by_name) for line in (f"# TYPE {name} unknown", *by_name[name])]
    write_past(folder / "data", text)
    with prometheus(folder, {}, "--storage.tsdb.retention.time=100y") as url:
        yield url


def test_a_server_is_read_from_the_command_line(kvpm: Run, recorded_server: str) -> None:
    window = ("--since", "2026-11-30T07:07:00", "--until", "2026-11-30T07:10:00")
    code, out, err = kvpm("ingest", "--prometheus", recorded_server, *window, "-o", "live.kvtrace")
    assert code == 0, err
    assert recorded_server in out
    assert value(kvpm, "live.kvtrace", "SELECT sum(delta) FROM counter_delta WHERE name = 'preemptions_total'") == "378.0"
    code, out, _ = kvpm("diagnose", "live.kvtrace", "--json")
    found = json.loads(out)
    assert found["verdict"]["cause"] == "l1_bound"
    assert (found["peaks"]["waiting"], found["peaks"]["preemptions"]) == (132, 378)
    assert [i["instance"] for i in found["instances"]] == ["127.0.0.1:8112"]


def test_the_same_range_again_is_not_counted_twice(kvpm: Run, recorded_server: str) -> None:
    window = ("--since", "2026-11-30T07:07:00", "--until", "2026-11-30T07:10:00")
    for _ in range(2):
        assert kvpm("ingest", "--prometheus", recorded_server, *window, "-o", "live.kvtrace")[0] == 0
    assert value(kvpm, "live.kvtrace", "SELECT sum(delta) FROM counter_delta WHERE name = 'preemptions_total'") == "378.0"


def test_percentiles_agree_with_the_server_and_the_clients_within_a_bucket(kvpm: Run, recorded_server: str) -> None:
    end = 1796022586
    bounds: list[float] = []
    for q, column in ((0.5, "ttft_p50_finished_s"), (0.99, "ttft_p99_finished_s")):
        query = f"histogram_quantile({q}, sum by (le) (increase(vllm:time_to_first_token_seconds_bucket[110s])))"
        asked = f"{recorded_server}/api/v1/query?" + urllib.parse.urlencode({"query": query, "time": end})
        with urllib.request.urlopen(asked) as answer:
            server = float(json.load(answer)["data"]["result"][0]["value"][1])
        assert kvpm("ingest", str(RECORDED / "metrics.prom.gz"), "-o", f"m{q}.kvtrace")[0] == 0
        assert kvpm("ingest", str(RECORDED / "client.jsonl.gz"), "-o", f"c{q}.kvtrace")[0] == 0
        which = "p50" if q == 0.5 else "p99"
        ours = float(value(kvpm, f"m{q}.kvtrace", f"SELECT {which}.value FROM _ttft_histogram WHERE span = 'all'"))
        client = float(value(kvpm, f"c{q}.kvtrace", f"SELECT {column} FROM q01_ttft"))
        listed = value(kvpm, f"m{q}.kvtrace", "SELECT string_agg(DISTINCT le, ' ') FROM series WHERE name = 'ttft_s' AND NOT isinf(le)")
        bounds = sorted(float(b) for b in listed.split())
        placed = [sum(b < v for b in bounds) for v in (server, ours, client)]
        assert max(placed) - min(placed) <= 1, (q, server, ours, client)


def test_server_options_need_a_server(kvpm: Run) -> None:
    code, _, err = kvpm("ingest", str(RECORDED / "server.log"), "--match", "up")
    assert code == 2
    assert "--prometheus" in err


def test_a_secret_in_a_wrong_option_is_not_repeated(kvpm: Run) -> None:
    code, _, err = kvpm("ingest", "--prometheus", "http://127.0.0.1:1", "--header", SECRET)
    assert code == 2
    assert SECRET not in err
    code, _, err = kvpm("ingest", "--prometheus", f"http://me:{SECRET}@127.0.0.1:1")
    assert code != 0
    assert SECRET not in err


def test_nothing_to_ingest_is_a_usage_error(kvpm: Run) -> None:
    code, _, err = kvpm("ingest")
    assert code == 2
    assert "--prometheus" in err


def test_a_given_offset_is_used_and_said(kvpm: Run) -> None:
    code, out, _ = kvpm("ingest", str(RECORDED / "server.log"), "--year", "2026", "--offset", "server.log=-7h", "-o", "o.kvtrace")
    assert code == 0
    assert "-25200 s added" in out
    assert value(kvpm, "o.kvtrace", "SELECT strftime(min(ts), '%H') FROM scheduler") == "00"


@pytest.mark.parametrize("text", ["server.log", "=+7h", "server.log=", "server.log=7x", "server.log=h"])
def test_an_offset_that_is_none_is_refused(kvpm: Run, text: str) -> None:
    code, _, err = kvpm("ingest", str(RECORDED / "server.log"), "--offset", text)
    assert code == 2
    assert "SOURCE=DURATION" in err


def test_at_places_a_scrape_without_a_time(kvpm: Run, tmp_path: Path) -> None:
    (tmp_path / "m.prom").write_text("vllm:num_requests_running 4\n")
    assert kvpm("ingest", "m.prom", "--at", "2026-11-30T08:00:00Z", "-o", "a.kvtrace")[0] == 0
    assert value(kvpm, "a.kvtrace", "SELECT epoch(ts)::BIGINT FROM samples") == "1796025600"
    code, _, err = kvpm("ingest", "m.prom", "--at", "yesterday")
    assert code == 2
    assert "--at" in err


def test_a_column_map_reads_any_table(kvpm: Run, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("when,first_ms,prompt\n2026-11-30T07:00:00Z,250,my secret prompt\n2026-11-30T07:00:01Z,750,other\n")
    code, _, err = kvpm("ingest", "r.csv", "--map", "arrival=when,ttft=first_ms", "-o", "r.kvtrace")
    assert code == 0, err
    assert value(kvpm, "r.kvtrace", "SELECT count(*) || ' ' || max(ttft_s) FROM requests") == "2 0.75"
    code, _, err = kvpm("ingest", "r.csv", "--map", "arrival=nowhere", "-o", "s.kvtrace")
    assert code == 2
    assert "nowhere" in err
    code, _, err = kvpm("ingest", "r.csv", "--map", "arrival", "-o", "s.kvtrace")
    assert code == 2


def test_texts_are_kept_only_when_asked_for(kvpm: Run, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text(json.dumps({"id": 1, "send": 1796022476.5, "ttft": 0.1, "e2e": 0.5, "prompt": "my own words"}) + "\n")
    assert kvpm("ingest", "c.jsonl", "-o", "c.kvtrace")[0] == 0
    assert value(kvpm, "c.kvtrace", "SELECT prompt_text IS NULL AND length(prompt_sha256) = 64 FROM requests") == "True"
    assert not any(b"my own words" in p.read_bytes() for p in (tmp_path / "c.kvtrace").rglob("*") if p.is_file())
    assert kvpm("ingest", "c.jsonl", "--keep-text", "-o", "c.kvtrace")[0] == 0
    assert value(kvpm, "c.kvtrace", "SELECT prompt_text FROM requests") == "my own words"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n", "holds no sample"),
        ("# TYPE node_load1 gauge\nnode_load1 0.5\n# TYPE tgi_queue_size gauge\ntgi_queue_size 4\n", "other programs"),
        ("".join(f"# scrape_ts {1796022476 + n}\nvllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
                 "vllm:kv_cache_usage_perc 0\nvllm:generation_tokens_total 900\n" for n in range(60)), "nothing was running"),
        ("# scrape_ts 1796022476\nvllm:num_requests_running 3\nvllm:num_requests_waiting 9\n", "1 scheduler report"),
    ],
    ids=["no samples", "another program", "the run is over", "one moment"],
)  # fmt: skip
def test_a_dump_that_tells_nothing_is_not_green(kvpm: Run, tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "m.prom").write_text(text)
    code, out, err = kvpm("diagnose", "m.prom", "--json")
    assert code == 0, err
    verdict = json.loads(out)["verdict"]
    assert verdict["cause"] == "insufficient_data"
    assert reason in verdict["sentence"]


def test_failed_requests_beside_a_quiet_server_are_no_all_clear(kvpm: Run, tmp_path: Path) -> None:
    zero = 1796022476
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "m.prom").write_text(
        "".join(
            f"# scrape_ts {zero + n}\nvllm:num_requests_running 2\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.1\n"
            f"vllm:generation_tokens_total {9 * n}\n"
            for n in range(60)
        )
    )
    records = [{"id": n, "send": zero + n, "ttft": 0.1, "e2e": 0.5} for n in range(40)]
    records += [{"id": 40 + n, "send": zero + 40 + n, "ttft": None, "e2e": None, "error": "connection refused"} for n in range(5)]
    (tmp_path / "s" / "client.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    code, out, err = kvpm("diagnose", "s", "--json")
    assert code == 0, err
    verdict = json.loads(out)["verdict"]
    assert verdict["cause"] == "insufficient_data"
    assert "5 of 45 requests failed" in verdict["sentence"]


def test_a_window_of_metrics_alone(kvpm: Run) -> None:
    dump = str(RECORDED / "metrics.prom.gz")
    assert kvpm("diagnose", dump, "--since", "2026-11-30T07:09Z", "--until", "2026-11-30T07:09:30Z")[0] == 0
    code, _, err = kvpm("diagnose", dump, "--since", "2026-11-30T09:00Z")
    assert code == 2
    assert "07:09:45" in err


def test_a_mapping_goes_before_the_guess_at_keys(kvpm: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text('{"ts": 1767323045, "first_token_latency": 0.5, "n_in": 7}\n' * 2)
    mapping = ("--map", "arrival=ts,ttft=first_token_latency,prompt_tokens=n_in")
    code, out, err = kvpm("sql", "mine.jsonl", "SELECT DISTINCT ttft_s, prompt_tokens FROM requests", "--csv", *mapping)
    assert (code, out.split()[1:]) == (0, ["0.5,7"]), err
    code, _, err = kvpm("sql", "mine.jsonl", "SELECT 1", "--map", "arrival=ts,ttft=nosuch")
    assert code == 2
    assert "columns that are not there: nosuch" in err
    # a mapping that has none of this file's columns is meant for another input
    code, out, err = kvpm("sql", "mine.jsonl", "SELECT count(*) FROM requests", "--csv", "--map", "arrival=when")
    assert (code, out.split()[1:]) == (0, ["2"]), err

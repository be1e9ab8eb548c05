"""The oracle cases themselves: labels that follow from the stored runs, files that agree with each other."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from incident import Incident
from oracle import CASES, incidents
from oracle_files import CLIENTS, DATA, LOG, METRICS, load
from oracle_label import MOST, SLOW_S, cause_of, shares, unclear
from oracle_scrapes import end_of
from oracle_table import table

HERE = Path(__file__).parent
INTENDED = {
    "l1": "l1_bound",
    "reserved": "reservation_bound",
    "watermark": "reservation_bound",
    "cap": "cap_bound",
    "prefill": "prefill_bound",
    **dict.fromkeys(("healthy", "bursts", "shared", "chunked"), "none"),
}
ALL = {case.name: case for case in incidents()}
RENDERED = ("sglang_cap-half_s1", "sglang_l1-long_s1", "vllm_l1-long_s1", "vllm_l1-prefix_s1", "vllm_shared_s2")


def _case(key: str) -> Incident:
    return ALL["oracle-" + key.replace("_", "-")]


@pytest.mark.parametrize("key", CASES)
def test_the_knobs_tell_one_cause_and_it_is_the_intended_one(key: str) -> None:
    doc = load(key)
    assert unclear(doc) is None
    assert cause_of(doc) == INTENDED[doc["design"].split("-")[0]] == _case(key).cause


@pytest.mark.parametrize("key", CASES)
def test_the_stored_requests_give_the_stored_percentiles(key: str) -> None:
    doc = load(key)

    def p99(rows: list[list[float]]) -> float:
        values = sorted(row[2] for row in rows)
        return values[min(len(values) - 1, int(len(values) * 0.99))]

    assert p99(doc["requests"]) == pytest.approx(doc["p99_ttft_s"]["base"], abs=0.002)
    quiet = [row for row in doc["requests"] if row[0] < doc["quiet_s"]]
    assert p99(quiet) == pytest.approx(doc["p99_ttft_s"]["quiet"], abs=0.002)
    assert doc["p99_ttft_s"]["quiet"] < max(SLOW_S, doc["p99_ttft_s"]["base"] / 4)
    assert 180 < end_of(doc) < 900


def test_a_slow_case_has_every_knob_turned() -> None:
    for key in CASES:
        doc = load(key)
        slow = doc["p99_ttft_s"]["base"] >= SLOW_S
        assert set(shares(doc)) == ({"pool", "cap", "compute", "reservation"} if slow else set()), key


def test_two_strong_knobs_are_no_clear_case() -> None:
    doc = load("sglang_cap-small_s1")
    both = {**doc, "p99_ttft_s": {**doc["p99_ttft_s"], "compute": doc["p99_ttft_s"]["cap"]}}
    assert shares(both)["compute"] > MOST
    assert unclear(both) == "several knobs remove most of it: cap, compute"


def test_a_reservation_that_gives_way_in_a_full_pool_is_l1() -> None:
    doc = load("sglang_reserved-tokens_s1")
    assert shares(doc)["pool"] > MOST
    thrown_out = {**doc, "facts": {**doc["facts"], "retracted_while_waiting": 3}}
    assert (cause_of(doc), cause_of(thrown_out)) == ("reservation_bound", "l1_bound")


def test_both_splits_have_every_cause_of_each_engine() -> None:
    causes = {split: {(c.engine, c.cause) for c in ALL.values() if c.split == split} for split in ("tune", "score")}
    assert causes["tune"] == causes["score"]
    assert len(causes["tune"]) == 2 * len(set(INTENDED.values()))
    assert len(ALL) == len(CASES) >= 24


def test_the_page_shows_the_stored_figures() -> None:
    assert table() in (HERE / "oracle_truth.md").read_text()


def test_the_extracts_are_small_and_all_are_used() -> None:
    stored = sorted(DATA.glob("oracle_*.json.gz"))
    assert [p.name for p in stored] == sorted(f"oracle_{key}.json.gz" for key in CASES)
    assert sum(p.stat().st_size for p in stored) < 2_500_000


@pytest.mark.parametrize("key", RENDERED)
def test_the_files_are_the_same_each_time(key: str) -> None:
    case = _case(key)
    first, second = case.files(), case.files()
    assert first == second
    assert set(first) == {*case.logs, *case.metrics, *case.clients}
    assert sum(map(len, first.values())) < 1_000_000


@pytest.mark.parametrize("key", [k for k in RENDERED if _case(k).metrics])
def test_scrapes_and_client_records_count_the_same_requests(key: str) -> None:
    files = _case(key).files()
    sent = [json.loads(line) for line in gzip.decompress(files[CLIENTS]).splitlines()]
    assert len(sent) == len(load(key)["requests"]) * CASES[key].ranks
    last = gzip.decompress(files[METRICS]).decode().rsplit("# scrape_ts", 1)[1]

    def total(name: str) -> float:
        return sum(float(line.rsplit(" ", 1)[1]) for line in last.splitlines() if line.startswith(name))

    engine = _case(key).engine
    assert total(f"{engine}:time_to_first_token_seconds_count") == len(sent)
    assert total(f"{engine}:time_to_first_token_seconds_sum") == pytest.approx(sum(r["ttft"] for r in sent), abs=0.01)
    assert total(f"{engine}:prompt_tokens_total") == sum(r["prompt_tokens"] for r in sent)
    # vLLM's steps do not tell a resumed request that needs one token from a running one
    assert total(f"{engine}:generation_tokens_total") == pytest.approx(sum(r["output_tokens"] for r in sent), rel=1e-3)


def test_the_log_never_shows_more_running_than_the_cap() -> None:
    for key in ("sglang_cap-half_s1", "vllm_cap-small_s1"):
        config = load(key)["config"]
        cap = config.get("max_running_requests") or config["max_num_seqs"]
        log = _case(key).files()[LOG].decode()
        running = [int(n) for n in re.findall(r"(?:#running-req|Running): (\d+)", log)]
        assert max(running) == cap


def test_sglangs_pool_adds_up_in_every_row() -> None:
    for key in CASES:
        doc = load(key)
        if doc["engine"] == "sglang":
            capacity = doc["config"]["max_total_num_tokens"]
            for row in doc["rows"]:
                if row["k"] == "decode":
                    assert row["used"] + row["av"] + row["ev"] == capacity, key

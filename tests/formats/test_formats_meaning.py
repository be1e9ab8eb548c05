"""What lines mean: by version, not by text alone; and what loose matching must not invent."""

from __future__ import annotations

import pytest

from analyzer.formats.match import match_line
from analyzer.formats.model import Parsed, distrust_end, looks_damaged, split_pairs, words_of

S = "[2026-01-02 03:04:05 TP0] "
V = "INFO 11-30 05:55:58 [loggers.py:338] "
PREFILL = "#new-seq: 2, #new-token: 4096, #cached-token: 512, token usage: 0.35, #running-req: 12, #queue-req: 7"
STATS = "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs"


def parsed(line: str) -> Parsed:
    result = match_line(line).parsed
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("message", "basis"),
    [
        (f"Prefill batch. {PREFILL}", "before_batch"),  # 0.4.6
        (f"Prefill batch, {PREFILL}, ", "before_batch"),  # 0.5.7
        (f"Prefill batch, {PREFILL},", "before_batch"),  # the same, its last blank lost
        (f"Prefill batch, {PREFILL}, input throughput (token/s): 1.00, cuda graph: False", "after_batch"),  # 0.5.9
        (f"Prefill batch, {PREFILL}, #pending-token: 3, cuda graph: False, input throughput (token/s): 1.00", "after_batch"),
    ],
)
def test_whether_usage_includes_the_batch_itself(message: str, basis: str) -> None:
    assert parsed(S + message).extra["kv_usage_basis"] == basis


def test_the_input_throughput_changed_its_tokens() -> None:
    old = parsed(S + f"Prefill batch, {PREFILL}, input throughput (token/s): 1.00, cuda graph: False")
    new = parsed(S + f"Prefill batch, {PREFILL}, #pending-token: 3, cuda graph: False, input throughput (token/s): 1.00")
    assert (old.extra["prompt_tps_basis"], new.extra["prompt_tps_basis"]) == ("previous_batch", "this_batch")


def test_retraction_and_failure_begin_alike() -> None:
    assert parsed(S + "Decode out of memory happened. #retracted_reqs: 3, #new_token_ratio: 0.1 -> 0.4").values["kind"] == "retraction"
    assert parsed(S + "Decode out of memory. Try to lower your batch size.").values["kind"] == "oom"


@pytest.mark.parametrize("device", ["GPU", "CPU", "XPU", "TPU", "GPU + host"])
def test_the_device_label_varies(device: str) -> None:
    assert parsed(f"{V}{STATS}, {device} KV cache usage: 96.8%").values["kv_usage"] == 0.968


def test_only_the_first_pool_of_a_line_is_the_pool() -> None:
    both = parsed(f"{V}{STATS}, GPU KV cache usage: 96.8%, CPU KV cache usage: 5.0%")
    assert both.values["kv_usage"] == 0.968
    assert both.extra["CPU KV cache usage"] == "5.0%"


@pytest.mark.parametrize("label", ["External KV cache usage", "Encoder KV cache usage", "KV cache usage of tier 2"])
def test_other_usages_are_not_the_pools(label: str) -> None:
    assert "kv_usage" not in parsed(f"{V}{STATS}, {label}: 5.0%").values


@pytest.mark.parametrize(
    ("pair", "column"),
    [
        ("swa token usage: 0.9", "kv_usage"),
        ("mamba usage: 0.9", "kv_usage"),
        ("cpu token usage: 0.9", "kv_usage"),
        ("Drafted throughput: 199.80 tokens/s", "gen_tps"),
        ("block accept len: 3.0", "gen_tps"),
        ("#cached-tounning-req: 12", "cached_tokens"),
        ("#cached-tounning-req: 12", "running"),
        ("#new-tok-token: 9", "new_tokens"),
    ],
)
def test_what_only_sounds_alike_is_not_taken(pair: str, column: str) -> None:
    for head in ("Prefill batch, ", "Decode batch, "):
        assert column not in parsed(S + head + pair + ", #queue-req: 1").values


def test_next_months_field_is_kept() -> None:
    line = parsed(S + "Decode batch, #running-req: 1, #shiny-req: 5, shiny usage: 12.5%, mode: eager, #queue-req: 2, shiny list: [1, 2]")
    assert {k: line.extra[k] for k in ("#shiny-req", "shiny usage", "mode")} == {
        "#shiny-req": "5",
        "shiny usage": "12.5%",
        "mode": "eager",
    }
    assert line.values == {"kind": "decode", "running": 1, "waiting": 2}


@pytest.mark.parametrize("text", ["user prompt: tell me a secret, please", "key: sk-abc123", "note: 'quoted'", "a" * 200 + ": 5"])
def test_text_that_got_into_a_line_is_not_kept(text: str) -> None:
    line = parsed(S + f"Decode batch, #running-req: 1, #queue-req: 2, {text}")
    assert not line.extra
    assert line.damaged


def test_a_value_given_twice_is_not_known() -> None:
    line = parsed(S + "Decode batch, #running-req: 1, #queue-req: 2, #running-req: 9")
    assert "running" not in line.values
    assert line.damaged == ["#running-req"]
    assert not parsed(S + "Decode batch, #running-req: 1, #queue-req: 2, #running-req: 1").damaged


@pytest.mark.parametrize("value", ["", "x", "1x", "1534.", "0.", "nan", "9" * 30, "9" * 6000, "١٢", "-", "1,2"])
def test_a_damaged_number_is_no_number(value: str) -> None:
    assert "waiting" not in parsed(S + f"Decode batch, #running-req: 1, #queue-req: {value}").values


def test_a_preemption_count_is_cumulative() -> None:
    text = "Sequence group a is preempted by PreemptionMode.SWAP mode because there is not enough KV cache space. "
    text += "x total_num_cumulative_preemption=51"
    line = parsed("WARNING 08-12 10:20:30 scheduler.py:1242] " + text)
    assert (line.values["total"], line.values.get("requests")) == (51, None)


def test_pairs_and_their_commas() -> None:
    assert split_pairs("a: 1, b: 2, 3", ":") == [("a", "1"), ("b", "2, 3")]
    assert split_pairs("junk, a: 1", ":") == [("", "junk"), ("a", "1")]
    assert split_pairs("n:('a', 'b')=4, m=5", "=") == [("n:('a', 'b')", "4"), ("m", "5")]


def test_a_long_line_of_commas_takes_no_time() -> None:
    match_line("INFO 11-30 05:55:58 [metrics.py:113] KV Transfer metrics: " + ", (" * 200_000)


@pytest.mark.parametrize(("key", "damaged"), [("#cached-tounning-req", True), ("#brand-new-req", False), ("mamba nusage", True)])
def test_damage_shows_in_the_words(key: str, damaged: bool) -> None:
    known = words_of(["#cached-token", "#running-req", "mamba num", "mamba usage", "#new-seq"])
    assert looks_damaged(key, known) is damaged


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("Decode batch, #running-req: 24, #queue-req: 1", "waiting"),
        ("Decode batch, #running-req: 24, #queue-req: 1, ", ""),
        ("KV cache pool is full. Retract requests. #retracted_reqs: 3", "requests"),
        ("KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 61", "tokens"),
        ("max_total_num_tokens=1, max_prefill_tokens=2, max_running_requests=3, context_len=13", "context_len"),
    ],
)
def test_the_end_of_a_cut_line_is_not_trusted(message: str, lost: str) -> None:
    whole = parsed(S + message)
    cut = parsed(S + message)
    distrust_end(cut, message)
    assert set(whole.values) - set(cut.values) == ({lost} if lost else set())

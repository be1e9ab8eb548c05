"""Workload files of the engines' schedulers: what is read from them, what is refused, and the rows that are written."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from analyzer.errors import KvpmError
from analyzer.replay.oracle_files import load, parse, request_rows
from analyzer.replay.oracle_run import run
from analyzer.replay.rows import rows_file
from analyzer.replay.settings import Sglang, Vllm
from analyzer.replay.step_time import StepTime

COST = {"a": 0.007, "b": 0.00002, "c": 0.0002}
SGLANG = {"max_total_num_tokens": 2048, "page_size": 16, "max_prefill_tokens": 4096, "max_running_requests": 8, "chunked_prefill_size": 256}
VLLM = {"num_blocks": 129, "block_size": 16, "max_num_seqs": 8, "max_num_batched_tokens": 512}
REQUEST = {"id": 0, "arrival": 0.5, "prompt_len": 100, "output_len": 20}


def _file(config: dict[str, Any], *requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"config": config, "cost": COST, "requests": list(requests or (REQUEST,)), **more}


def test_tokens_are_those_that_the_schedulers_were_driven_with() -> None:
    read = parse(
        _file(SGLANG, {**REQUEST, "id": 7, "prefix_id": 3, "prefix_len": 40}, {**REQUEST, "id": 8, "prefix_id": 3, "prefix_len": 60})
    )
    first, second = (read.workload.contents.prompt(r).tolist() for r in read.workload.requests)
    draw = random.Random("p3")
    prefix = [draw.randrange(3, 1000) for _ in range(60)]
    own = random.Random("r7")
    assert first == prefix[:40] + [own.randrange(3, 1000) for _ in range(60)]
    assert second[:60] == prefix
    assert len(second) == 100
    # the same whenever it is asked for
    assert read.workload.contents.prompt(read.workload.requests[0]).tolist() == first


def test_sglang_ends_with_an_end_of_sequence_unless_it_is_ignored() -> None:
    read = parse(_file(SGLANG, {**REQUEST, "max_new_tokens": 50}, {**REQUEST, "id": 1, "max_new_tokens": 50, "ignore_eos": True}))
    told, ignored = read.workload.requests
    assert read.workload.contents.output(told).tolist() == [7] * 19 + [2]
    assert read.workload.contents.output(ignored).tolist() == [7] * 20
    assert (told.max_new_tokens, told.ignore_eos) == (50, False)
    # without an end of sequence the length that is asked for ends it
    assert (ignored.max_new_tokens, ignored.ignore_eos) == (20, True)


def test_vllm_stops_early_only_where_more_was_asked_for() -> None:
    read = parse(_file(VLLM, {**REQUEST, "max_new_tokens": 50}, {**REQUEST, "id": 1}, {**REQUEST, "id": 2, "max_new_tokens": 10}))
    assert [(r.max_new_tokens, r.ignore_eos) for r in read.workload.requests] == [(50, False), (20, True), (20, True)]
    assert all(read.workload.contents.output(r).tolist() == [7] * 20 for r in read.workload.requests)


def test_settings_and_cost() -> None:
    sglang, vllm = parse(_file({**SGLANG, "disable_radix_cache": True, "overlap": True})), parse(_file({**VLLM, "async": True}))
    assert sglang.settings == Sglang(2048, 8, 16, 256, 4096, prefix_caching=False, context_tokens=8192, overlap=True)
    assert vllm.settings == Vllm(129, 8, 16, 512, 8192, async_scheduling=True)
    assert sglang.step_time == vllm.step_time == StepTime(0.007, 0.00002, 0.0002)
    assert (sglang.engine, vllm.engine) == ("sglang", "vllm")
    whole = parse(_file({**VLLM, "chunked_prefill": False})).settings
    assert isinstance(whole, Vllm)
    assert not whole.chunked_prefill
    off = parse(_file({**SGLANG, "chunked_prefill_size": -1}))
    assert isinstance(off.settings, Sglang)
    assert off.settings.chunked_prefill_tokens is None


def test_requests_come_in_the_order_of_arrival() -> None:
    rows = [{**REQUEST, "id": i, "arrival": a} for i, a in enumerate((3.0, 1.0, 2.0, 1.0))]
    assert [r.id for r in parse(_file(SGLANG, *rows)).workload.requests] == ["1", "3", "2", "0"]


def test_what_is_not_used_of_the_config_is_told() -> None:
    assert parse(_file(SGLANG)).workload.notes == ()
    (note,) = parse(_file({**SGLANG, "num_layers": 3})).workload.notes
    assert "num_layers" in note


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ([], "no workload file"),
        ({"config": SGLANG, "cost": COST}, "no workload file"),
        (_file({}), "no pool size"),
        (_file([]), "config is no object"),
        (_file({**SGLANG, "page_size": 0}), "page_size is 0"),
        (_file({**SGLANG, "page_size": "16"}), "page_size is '16'"),
        (_file({**SGLANG, "page_size": True}), "page_size is True"),
        (_file({k: v for k, v in SGLANG.items() if k != "max_running_requests"}), "max_running_requests is missing"),
        (_file({**SGLANG, "schedule_policy": "dfs-weight"}), "not modelled"),
        (_file({**VLLM, "policy": "lifo"}), "not modelled"),
        (_file({**VLLM, "num_blocks": 1}), "num_blocks is 1"),
        (_file({**VLLM, "watermark": float("nan")}), "watermark is nan"),
        ({**_file(VLLM), "cost": {"a": 0.1}}, "b is missing"),
        ({**_file(VLLM), "cost": {"a": 0, "b": 0, "c": 1}}, "no time"),
        ({**_file(VLLM), "cost": 3}, "cost is no object"),
        ({**_file(VLLM), "requests": []}, "no list of requests"),
        ({**_file(VLLM), "requests": {}}, "no list of requests"),
        (_file(VLLM, 3), "request 0 is no object"),
        (_file(VLLM, {"arrival": 1}), "request 0 is no object with an id"),
        (_file(VLLM, REQUEST, REQUEST), "two requests have the id 0"),
        (_file(VLLM, {**REQUEST, "arrival": -1}), "arrival is -1"),
        (_file(VLLM, {**REQUEST, "arrival": float("inf")}), "arrival is inf"),
        (_file(VLLM, {**REQUEST, "prompt_len": 0}), "prompt_len is 0"),
        (_file(VLLM, {**REQUEST, "output_len": 1.5}), "output_len is 1.5"),
        (_file(VLLM, {**REQUEST, "prefix_id": 1, "prefix_len": 101}), "prefix_len 101 is more than prompt_len 100"),
    ],
)
def test_refused(document: Any, found: str) -> None:
    with pytest.raises(KvpmError, match=found) as caught:
        parse(document, name="w.json")
    assert caught.value.message.startswith("w.json")
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(("text", "found"), [("{", "no JSON"), ("[" * 100_000, "no JSON"), ("\udcff", "no JSON")])
def test_what_is_no_json(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "w.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(KvpmError, match=found):
        load(path)
    with pytest.raises(KvpmError, match="cannot read"):
        load(tmp_path / "other.json")


def test_the_engine_that_is_asked_for_has_to_be_the_files() -> None:
    with pytest.raises(KvpmError, match="one of sglang, not of vllm"):
        parse(_file(SGLANG), "vllm")


@pytest.mark.parametrize(
    ("config", "columns"),
    [
        (
            SGLANG,
            "id arrival added prompt_len output_len max_new_tokens max_new_tokens_clipped prefix_id first_scheduled first_token finish "
            "retractions cached_tokens aborted out_tokens",
        ),
        (VLLM, "id arrival added prompt_len output_len prefix_id first_scheduled first_token finish preemptions"),
    ],
    ids=["sglang", "vllm"],
)
def test_steps_and_requests_are_written(tmp_path: Path, config: dict[str, Any], columns: str) -> None:
    """Times of one request alone can be told by hand: prefill in one step, then a step for each further token."""
    read = parse(_file(config, {**REQUEST, "prefix_id": 5, "prefix_len": 16}))
    steps, requests = tmp_path / "steps.jsonl.gz", tmp_path / "requests.jsonl"
    told = run(read, steps, requests)
    rows = [json.loads(line) for line in gzip.decompress(steps.read_bytes()).splitlines()]
    assert len(rows) == told.steps == 20
    assert (rows[0]["t"], rows[0]["t_end"]) == (0.5, pytest.approx(0.5 + 0.007 + 100 * 0.00002 + 0.0002))
    (served,) = [json.loads(line) for line in requests.read_text(encoding="utf-8").splitlines()]
    assert list(served) == columns.split()
    assert (served["added"], served["first_scheduled"]) == (0.5, 0.5)
    assert served["first_token"] == pytest.approx(rows[0]["t_end"])
    assert served["finish"] == pytest.approx(rows[-1]["t_end"]) == pytest.approx(told.end_s)
    assert served["prefix_id"] == 5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["requests.jsonl", "steps.jsonl.gz"]
    again = tmp_path / "again.jsonl.gz"
    run(read, again)
    assert again.read_bytes() == steps.read_bytes()


@pytest.mark.parametrize(("prompt", "asks", "clipped"), [(100, 50, 50), (2000, 500, 31), (2031, 500, 0), (100, 5000, 1919)])
def test_what_sglang_makes_of_max_new_tokens(prompt: int, asks: int, clipped: int) -> None:
    """An empty pool of 2,048 tokens has to hold the prompt's pages, a page more, and the answer; one token stays free."""
    read = parse(_file(SGLANG, {**REQUEST, "prompt_len": prompt, "max_new_tokens": asks}))
    from analyzer.replay.run import replay

    (row,) = request_rows(read, replay(read.workload, read.settings, read.step_time, until_s=0.6))
    assert row["max_new_tokens_clipped"] == clipped


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError), rows_file(tmp_path / "rows.jsonl") as write:
        write({"a": object()})
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "rows.jsonl"):
        with pytest.raises(KvpmError, match="folder"), rows_file(path):
            pass

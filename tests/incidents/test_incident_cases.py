"""The labelled incidents themselves: enough of each kind, always the same, and labelled by what their models do."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import get_args

import pytest
from cases import all_incidents
from generated import case_name, stored_figures
from generated_load import DESIGNS
from generated_model import Design, figures, run
from incident import Incident
from variants import BARE, MIDDLE, VARIANTS, client_rows, left_of, middle_third, quiet, timed_lines, timed_scrapes

from analyzer.diagnosis.model import Cause

CASES = all_incidents()
L1 = ("l1_bound", "reservation_bound")
MOST_BYTES = 1_000_000


def case_of(name: str) -> Incident:
    return next(c for c in CASES if c.name == name)


def test_every_name_is_there_once() -> None:
    assert [n for n, count in Counter(c.name for c in CASES).items() if count > 1] == []


def test_there_are_enough_cases_of_every_cause_and_split() -> None:
    causes = Counter(c.cause for c in CASES)
    assert len(CASES) >= 60
    assert {c: causes[c] for c in get_args(Cause) if causes[c] < 4} == {}
    assert sum(c.cause not in L1 for c in CASES) >= len(CASES) / 3
    for cause in get_args(Cause):
        assert {c.split for c in CASES if c.cause == cause} == {"tune", "score"}, cause


def test_there_are_cases_of_every_origin() -> None:
    assert {c.origin for c in CASES} == {"recorded", "oracle", "generated"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_labelled_as_its_seed_and_cause_say(case: Incident) -> None:
    assert case.split == ("tune" if case.seed % 2 else "score")
    assert case.cause in get_args(Cause)
    assert set(case.also) <= set(get_args(Cause)) - {case.cause}
    assert case.because


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if n % 4 == 0 else pytest.mark.thorough)
        for n, case in enumerate(CASES[:: max(1, len(CASES) // 16)])
    ],
)
def test_a_case_gives_the_same_small_files_again(case: Incident) -> None:
    files = case.files()
    run.cache_clear()
    assert files == case.files()
    assert set(files) == {*case.logs, *case.metrics, *case.clients}
    assert sum(len(data) for data in files.values()) < MOST_BYTES


# The cheapest design of each cause: the stored figures of all are made by the same function.
@pytest.mark.parametrize(
    "name",
    [
        "l1-few-long-prompts",
        "reservation-greedy-clients",
        "cap-of-eight",
        "prefill-scoring",
        "decode-slow-host",
        "healthy",
    ],
)
def test_the_figures_of_a_label_are_what_the_models_do(name: str) -> None:
    design = next(d for d in DESIGNS if d.name == name)
    seed = design.seeds[0]
    assert figures(design, seed) == stored_figures()[case_name(name, seed)]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_the_cause_of_a_generated_case_follows_from_its_figures(design: Design) -> None:
    knob = {"l1_bound": "pool", "reservation_bound": "reservation", "cap_bound": "cap", "prefill_bound": "prefill", "skew": "balance"}
    for seed in design.seeds:
        found = stored_figures()[case_name(design.name, seed)]
        if design.cause == "none":
            assert found["p99_s"] < 2
        elif design.cause == "decode_bound":
            assert found["p99_s"] < 2
            assert found["token_s"] > 3 * found["quiet_token_s"]
            assert found["fast_token_s"] < 0.6 * found["token_s"]
        else:
            assert found["p99_s"] > max(2, 4 * found["quiet_p99_s"])
            assert found[knob[design.cause]] > 0.6
            # What grows the pool helps against a reservation and a skew too; nothing else may come near the named knob.
            others = {"pool", "prefill", "cap", "reservation", "balance"} - {knob[design.cause], "pool"}
            assert all(found[k] < found[knob[design.cause]] - 0.2 for k in others if k in found)
            if design.cause in ("cap_bound", "prefill_bound"):
                assert found["pool"] < 0.2


# -- what the variants leave

SGLANG, VLLM = "generated-cap-of-eight-s331", "generated-l1-preempted-s307"


@pytest.mark.parametrize("name", [SGLANG, VLLM])
def test_variants_take_away_what_they_say(name: str) -> None:
    case = case_of(name)
    files = case.files()
    left = {v: left_of(case, files, v) or {} for v in VARIANTS}
    assert set(left["no log"]) == {*case.metrics, *case.clients}
    assert set(left["no metrics"]) == {*case.logs, *case.clients}
    bare = left[BARE][case.logs[0]].decode()
    assert "HTTP/1.1" in bare
    assert "max_total_num_tokens" in bare or "GPU KV cache size" in bare
    # A server warms up with one batch before it is ready; that is all that may be left.
    assert bare.count(" batch, ") + bare.count("Avg prompt") == 0


@pytest.mark.parametrize("name", [SGLANG, VLLM])
def test_the_middle_third_is_cut_by_time_in_every_input(name: str) -> None:
    case = case_of(name)
    files = case.files()
    start, end = middle_third(case, files)
    left = left_of(case, files, MIDDLE) or {}
    assert set(left) == set(files)
    times = [t for t, _ in timed_lines(left[case.logs[0]].decode())]
    times += [t for t, _ in timed_scrapes(gzip.decompress(left[case.metrics[0]]).decode())]
    times += [row["send"] for row in client_rows(case, left)]
    assert all(t is not None and start <= t < end for t in times)
    assert len(times) > 100


def test_a_variant_that_takes_nothing_away_is_left_out() -> None:
    case = case_of("generated-clients-alone-s513")
    files = case.files()
    assert left_of(case, files, "no log") is None


def test_trouble_is_seen_in_the_clients_records() -> None:
    case = case_of(SGLANG)
    files = case.files()
    sent = [row["send"] for row in client_rows(case, files)]
    assert quiet(case, files, min(sent), min(sent) + 60)
    assert not quiet(case, files, min(sent) + 120, min(sent) + 200)
    assert not quiet(case, {name: data for name, data in files.items() if name not in case.clients} | {case.clients[0]: b""}, 0, 1)

"""Which server a source belongs to, and which of its process lifetimes a row does."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_logs import counts, read, rows, sglang, vllm, write

from analyzer.trace.identity import parse_instance_rules


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "t.kvtrace"


def test_the_folder_names_it(tmp_path: Path, trace: Path) -> None:
    result = read(write(tmp_path / "logs", pod_1__s=sglang(0, 5), pod_2__s=sglang(0, 6)), trace)
    assert counts(trace) == {"pod_1": 5, "pod_2": 6}
    assert {a["because"] for a in result.manifest.aliases} == {"folder of the source"}


def test_folders_of_one_name_are_told_apart(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "logs", a__out__s=sglang(0, 5), b__out__s=sglang(0, 6)), trace)
    assert counts(trace) == {"a/out": 5, "b/out": 6}


def test_an_address_names_it_and_merges(tmp_path: Path, trace: Path) -> None:
    read(
        write(
            tmp_path / "logs",
            a__s=sglang(0, 5, host="10.0.0.1", port=30000),
            b__s=sglang(100, 106, host="10.0.0.1", port=30000),
            c__s=sglang(0, 7, host="10.0.0.2", port=30000),
        ),
        trace,
    )
    assert counts(trace) == {"10.0.0.1:30000": 11, "10.0.0.2:30000": 7}


def test_any_host_is_no_address(tmp_path: Path, trace: Path) -> None:
    """0.0.0.0:30000 is the same text on every machine."""
    read(write(tmp_path / "logs", a__s=sglang(0, 5, port=30000), b__s=sglang(0, 6, port=30000)), trace)
    assert counts(trace) == {"a": 5, "b": 6}


def test_ports_tell_servers_of_one_folder_apart(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "logs", a=sglang(0, 5, port=30000), b=sglang(0, 6, port=30001)), trace)
    assert counts(trace) == {"logs:30000": 5, "logs:30001": 6}


def test_parts_of_one_log_are_one_server(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "logs", s=sglang(0, 5, port=30000), s_1=sglang(5, 10)), trace)
    assert counts(trace) == {"logs": 10}


def test_logs_that_overlap_are_two_servers(tmp_path: Path, trace: Path) -> None:
    result = read(write(tmp_path / "logs", a=sglang(0, 30), b=sglang(10, 50)), trace)
    assert counts(trace) == {"logs/a": 30, "logs/b": 40}
    assert all("same ranks" in a["because"] for a in result.manifest.aliases)


def test_ranks_in_files_of_their_own_are_one_server(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "logs", a=sglang(0, 30, tag=" DP0 TP0"), b=sglang(0, 30, tag=" DP1 TP0")), trace)
    assert counts(trace) == {"logs": 60}


def test_two_engines_are_two_servers(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "logs", a=sglang(0, 5), b=vllm(0, 60)), trace)
    assert counts(trace) == {"logs/sglang": 5, "logs/vllm": 6}


def test_what_the_user_says_comes_first(tmp_path: Path, trace: Path) -> None:
    logs = write(tmp_path / "logs", pod_1__s=sglang(0, 5, host="10.0.0.1", port=30000), pod_2__s=sglang(0, 6))
    read(logs, trace, ("*/pod_1/*", "prefill-0"), ("pod_2", "decode-0"))
    assert counts(trace) == {"decode-0": 6, "prefill-0": 5}
    # and is remembered when the trace is added to
    read(write(logs, pod_1__t=sglang(50, 52)), trace)
    assert counts(trace) == {"decode-0": 6, "prefill-0": 7}


def test_the_collector_names_it(tmp_path: Path, trace: Path) -> None:
    lines = sglang(0, 5).splitlines()
    kubectl = "".join(f"[pod/{pod}/server] {line}\n" for line in lines for pod in ("llm-0", "llm-1"))
    read(write(tmp_path / "logs", all=kubectl), trace)
    found = counts(trace)
    assert sorted(found.values()) == [5, 5]
    assert all("llm-" in name for name in found)


@pytest.mark.parametrize("text", ["", "a", "=b", "a=", "="])
def test_a_rule_needs_both_parts(text: str) -> None:
    with pytest.raises(Exception, match="PATTERN=NAME"):
        parse_instance_rules((text,))


# -- process lifetimes

RUNS = "SELECT run_id, count(*) FROM scheduler GROUP BY 1 ORDER BY 1"


def test_start_up_lines_begin_a_run(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "logs", s=sglang(0, 10) + sglang(100, 120, port=30000) + sglang(300, 303, port=30000)), trace)
    assert rows(trace, RUNS) == [("r1", 10), ("r2", 20), ("r3", 3)]
    assert rows(trace, "SELECT kind, run_id FROM events ORDER BY ts") == [("start", "r2"), ("start", "r3")]


def test_a_log_that_begins_with_its_process_has_one_run(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "logs", s=sglang(0, 10, port=30000)), trace)
    assert rows(trace, RUNS) == [("r1", 10)]


def test_arguments_printed_twice_are_one_start(tmp_path: Path, trace: Path) -> None:
    line = sglang(0, 0, port=30000)
    read(write(tmp_path / "logs", s=line + line + sglang(0, 10)), trace)
    assert rows(trace, RUNS) == [("r1", 10)]


def test_runs_go_across_the_files_of_a_server(tmp_path: Path, trace: Path) -> None:
    read(write(tmp_path / "logs", a=sglang(0, 10, port=30000), b=sglang(100, 120, port=30000), c=sglang(120, 125)), trace)
    assert rows(trace, RUNS) == [("r1", 10), ("r2", 25)]


def test_the_order_of_reading_does_not_matter(tmp_path: Path) -> None:
    parts = {"a": sglang(0, 10, port=30000), "b": sglang(100, 120, port=30000), "c": sglang(120, 125)}
    for n, order in enumerate(("abc", "cba", "bca")):
        logs, trace = tmp_path / f"logs{n}" / "x", tmp_path / f"{n}.kvtrace"
        for name in order:
            read(write(logs, **{name: parts[name]}), trace)
        assert rows(trace, RUNS) == [("r1", 10), ("r2", 25)], order


def test_files_of_one_start_on_several_nodes_are_one_run(tmp_path: Path, trace: Path) -> None:
    read(
        write(
            tmp_path / "logs",
            node0=sglang(0, 30, port=30000, tag=" DP0 TP0"),
            node1=sglang(10, 40, port=30000, tag=" DP1 TP0"),
        ),
        trace,
    )
    assert rows(trace, RUNS) == [("r1", 60)]

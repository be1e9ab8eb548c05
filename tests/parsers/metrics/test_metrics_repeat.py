"""The fast way for scrapes that repeat must not differ from the slow one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_reading import EPOCH, read_dump

NAMES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "sglang:token_usage", "go_goroutines")
VALUES = st.sampled_from(("0", "1", "2.5", "NaN", "1e3", "7_7", "bad"))
LINES = st.one_of(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(("", '{engine="0"}', '{engine="1"}')), VALUES).map(lambda p: f"{p[0]}{p[1]} {p[2]}"),
    st.sampled_from(("# HELP vllm:x y z", "# TYPE vllm:x gauge", "# EOF", "", "text", "# scrape_failed")),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, max_size=6), st.lists(st.tuples(st.integers(0, 6), LINES), max_size=4), st.integers(3, 8))
def test_any_change_between_scrapes_is_seen(lines: list[str], changes: list[tuple[int, str]], turns: int) -> None:
    scrapes = []
    for turn in range(turns):
        own = list(lines)
        if turn > 1:
            for at, line in changes[: turn - 1]:
                own[at : at + (turn % 2)] = [line]
        scrapes.append([f"# scrape_ts {EPOCH + turn}", *own])
    text = "".join(f"{line}\n" for scrape in scrapes for line in scrape)
    fast = read_dump(text, "prometheus_text")
    # a blank before each moment makes their beginnings differ, and a scrape is never taken for the one before
    slow = read_dump(
        "".join(f"{' ' * (n % 2 and at == 0)}{line}\n" for n, scrape in enumerate(scrapes) for at, line in enumerate(scrape)),
        "prometheus_text",
    )
    assert fast.samples == slow.samples
    assert fast.read.counts == slow.read.counts


@pytest.mark.parametrize("series", [1, 50])
def test_values_of_many_equal_scrapes_are_kept_apart(series: int) -> None:
    dice = random.Random(3)
    wanted: dict[int, list[float]] = {n: [] for n in range(series)}
    text = ""
    for turn in range(200):
        text += f"# scrape_ts {EPOCH + turn}\n"
        for n in range(series):
            before = wanted[n][-1] if wanted[n] else 0.0
            wanted[n].append(before + (dice.random() < 0.3) * dice.randrange(9))
            text += f'vllm:num_preemptions_total{{engine="{n}"}} {wanted[n][-1]}\n'
    dump = read_dump(text, block=10_000)
    for n in range(series):
        assert dump.values("vllm:num_preemptions_total", engine=str(n)) == wanted[n]
        assert dump.times("vllm:num_preemptions_total", engine=str(n)) == [EPOCH + t for t in range(200)]
    assert dump.read.counts.ignored == 200


def test_what_stands_behind_the_end_mark_is_another_scrape() -> None:
    body = "vllm:num_requests_running 1\n# EOF\nvllm:num_requests_waiting 2\n"
    dump = read_dump("".join(f"# scrape_ts {EPOCH + turn}\n{body}" for turn in range(6)))
    assert len(dump.values("vllm:num_requests_running")) == 6
    assert dump.values("vllm:num_requests_waiting") == []


@pytest.mark.parametrize(
    "last",
    [
        ("num_requests_running 9", "num_requests_swapped 8"),
        ("num_requests_swapped 8", "num_requests_waiting 9"),
        ("num_requests_running 9", "num_requests_waiting 8", "num_requests_swapped 7"),
        ("num_requests_swapped 7", "num_requests_running 9", "num_requests_waiting 8"),
        ("num_requests_running 9",),
        (),
    ],
)
def test_a_scrape_with_other_series_than_the_one_before_is_read_as_it_is(last: tuple[str, ...]) -> None:
    same = ("num_requests_running 1", "num_requests_waiting 2")
    scrapes = [same, same, same, last, same, same, last, last]
    text = "".join(f"# scrape_ts {EPOCH + n}\n" + "".join(f"vllm:{line}\n" for line in lines) for n, lines in enumerate(scrapes))
    dump = read_dump(text + f"# scrape_ts {EPOCH + 100}\n", "prometheus_text")
    for name in ("num_requests_running", "num_requests_waiting", "num_requests_swapped"):
        wanted = [(EPOCH + n, float(line.split()[1])) for n, lines in enumerate(scrapes) for line in lines if line.startswith(name + " ")]
        assert list(zip(dump.times(f"vllm:{name}"), dump.values(f"vllm:{name}"), strict=True)) == wanted


ODD = (
    "NaN",
    "-NaN",
    "+Inf",
    "-Inf",
    "+5",
    "+-5",
    "++5",
    "+",
    "-",
    "",
    "1_0",
    "0x10",
    "1e400",
    "-0",
    ".5",
    "5.",
    "1e",
    "5\t",
    "infinity",
    "x",
    "5 5",
    "é",
)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_odd_values_read_the_same_whether_or_not_scrapes_repeat(odd: str, end: str) -> None:
    def text(*, blank: bool) -> str:
        lines = []
        for turn in range(30):
            # a blank before each moment makes their beginnings differ, and a scrape is never taken for the one before
            lines.append(f"{' ' * (blank and turn % 2)}# scrape_ts {EPOCH + turn}")
            lines += ["# HELP vllm:num_requests_running how many", "# TYPE vllm:num_requests_running gauge"]
            lines += [f'vllm:num_requests_running{{engine="{n}"}} {odd if (turn, n) == (17, 3) else turn * n / 7}' for n in range(7)]
            lines += [f"go_goroutines {turn}", "", f"vllm:num_requests_waiting {odd if turn == 23 else turn}"]
        return "".join(line + end for line in lines)

    slow = read_dump(text(blank=True), "prometheus_text")
    for size in (1 << 20, 3000, 100):
        fast = read_dump(text(blank=False), "prometheus_text", block=size)
        assert fast.samples == slow.samples
        assert fast.read.counts == slow.read.counts


@pytest.mark.parametrize("size", [200_000, 60_000])
def test_scrapes_larger_than_a_block_repeat_too(size: int) -> None:
    series = 20_000
    text = "".join(
        f"# scrape_ts {EPOCH + turn}\n"
        + "".join(f'vllm:num_preemptions_total{{engine="{n % 50}",model_name="{n // 50}-été"}} {turn * n}.0\n' for n in range(series))
        for turn in range(5)
    )
    dump = read_dump(text, "prometheus_text", block=size)
    for n in (0, 1, 777, series - 1):
        name = {"engine": str(n % 50), "model_name": f"{n // 50}-été"}
        assert dump.of("vllm:num_preemptions_total", **name) == [((EPOCH + t) * 1_000_000, t * n) for t in range(5)]
        assert dump.records["vllm:num_preemptions_total", tuple(sorted(name.items()))] == n + 2
    assert (dump.read.counts.matched, dump.read.counts.ignored) == (5 * series, 5)


def test_keys_that_differ_in_one_byte_are_told_apart() -> None:
    """Eight bytes are compared at a time: a change in any place of a line is another series."""
    key = 'vllm:num_requests_running{engine="0",pod="abcdefgh"}'
    same = [f"# scrape_ts {EPOCH + n}\n{key} {n}\nvllm:num_requests_waiting {n}\n" for n in range(3)]
    for at in range(len("vllm:num_requests_running{engine=") + 1, len(key) - 2):
        if key[at] not in '",=':
            other = key[:at] + "z" + key[at + 1 :]
            text = "".join(same) + f"# scrape_ts {EPOCH + 3}\n{other} 3\nvllm:num_requests_waiting 3\n" + f"# scrape_ts {EPOCH + 4}\n"
            dump = read_dump(text, "prometheus_text")
            assert dump.values("vllm:num_requests_running", engine="0", pod="abcdefgh") == [0, 1, 2], other
            assert dump.values("vllm:num_requests_waiting") == [0, 1, 2, 3]

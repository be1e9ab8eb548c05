"""What promtool prints of a database."""

from __future__ import annotations

import pytest
from metric_reading import EPOCH, claimed_by, read_dump

NAME = "vllm:num_preemptions_total"


def dump_lines(count: int = 5, name: str = NAME) -> str:
    return "".join(f'{{__name__="{name}", engine="0", instance="h:8000"}} {n} {EPOCH + n}061\n' for n in range(count))


def openmetrics(count: int = 5) -> str:
    lines = "".join(f'{NAME}{{engine="{e}",instance="h:8000"}} {n} {EPOCH + n}.061\n' for e in range(2) for n in range(count))
    return lines + "# EOF\n"


def test_a_dump_is_read_series_by_series() -> None:
    text = dump_lines() + dump_lines(3, "vllm:num_requests_running") + dump_lines(2, "node_load1") + dump_lines(2, "vllm:x_created")
    assert claimed_by(text)[0] == "tsdb_dump"
    dump = read_dump(text)
    assert dump.of(NAME, engine="0", instance="h:8000") == [((EPOCH + n) * 1_000_000 + 61_000, n) for n in range(5)]
    counts = dump.read.counts
    assert (counts.matched, counts.ignored, counts.other, counts.unmatched) == (8, 2, 2, 0)
    assert dump.records[("vllm:num_requests_running", (("engine", "0"), ("instance", "h:8000")))] == 6
    assert list(dump.read.streams) == ["h:8000"]


def test_an_openmetrics_dump_is_read_series_by_series() -> None:
    assert claimed_by(openmetrics())[0] == "tsdb_dump"
    dump = read_dump(openmetrics())
    assert dump.times(NAME, engine="1", instance="h:8000") == [EPOCH + n + 0.061 for n in range(5)]
    assert dump.read.counts.ignored == 1


@pytest.mark.parametrize(
    ("quoted", "value"),
    [
        (r"a\tb", "a\tb"),
        (r"\x07é\"", '\x07é"'),
        (r"\u200b\U0001f600", "\u200b\U0001f600"),
        (r"a\\tb", "a\\tb"),
        (r"\UFFFFFFFF", r"\UFFFFFFFF"),
    ],
)
def test_label_values_are_quoted_as_go_does_it(quoted: str, value: str) -> None:
    text = f'{{__name__="{NAME}", model_name="{quoted}"}} 1 {EPOCH}000\n'
    assert read_dump(text, "tsdb_dump").values(NAME, model_name=value) == [1]


def test_values_of_every_kind() -> None:
    text = "".join(
        f'{{__name__="{NAME}"}} {v} {EPOCH + n}000\n' for n, v in enumerate(("1.796022449369586e+09", "NaN", "+Inf", "5", "x", "1_0"))
    )
    dump = read_dump(text, "tsdb_dump")
    assert dump.values(NAME) == [1796022449.369586, None, None, 5.0]
    assert dump.read.counts.unmatched == 2


def test_native_histograms_are_told_and_left() -> None:
    text = dump_lines() + f'{{__name__="vllm:h"}} {{count:3, sum:1.5, (0.5,1]:3}} {EPOCH}000\n'
    dump = read_dump(text)
    assert "1 samples of native histograms are not read" in dump.read.notes
    assert (dump.read.counts.matched, dump.read.counts.unmatched) == (5, 0)


def test_what_is_no_sample_is_counted() -> None:
    text = dump_lines() + f'\nlevel=info msg=done\n{{__name__="{NAME}"}} 1\n{{__name__="{NAME}"}} 1 17\n{{engine="0"}} 1 {EPOCH}000\n'
    counts = read_dump(text, "tsdb_dump").read.counts
    assert (counts.matched, counts.ignored, counts.other, counts.unmatched) == (5, 1, 2, 2)


def test_a_cut_last_line_is_left() -> None:
    dump = read_dump(dump_lines()[:-4])
    assert dump.values(NAME, engine="0", instance="h:8000") == [0, 1, 2, 3]
    assert (dump.read.counts.last_line_cut, dump.read.notes) == (True, ["the last line is cut"])
    assert not read_dump(openmetrics().rstrip("\n")).read.counts.last_line_cut


def test_blocks_can_end_anywhere() -> None:
    whole = read_dump(openmetrics(), "tsdb_dump")
    assert read_dump(openmetrics(), "tsdb_dump", block=7).samples == whole.samples


def test_only_other_programs_are_told() -> None:
    read = read_dump(dump_lines(3, "node_load1")).read
    assert (read.usable, read.nothing) == (False, "holds samples of other programs only (node_)")


ODD = ("5", "NaN", "+Inf", "-Inf", "1e3", "1_0", "x", "", "5 5", "5\t", "0x10", "1e400", "{count:3} 5", "0.1000000000000000055")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", [0, 300, 699])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_many_lines_of_one_series_read_as_few_do(odd: str, place: int, end: str) -> None:
    """Many are read by column; with a comment between every few they are not."""
    key = f'{{__name__="{NAME}", engine="0", model_name="d\u00e9j\u00e0 vu"}}'
    lines = [f"{key} {odd if n == place else n / 7} {EPOCH + n}061{end}" for n in range(700)]
    lines += [line.replace('"0"', '"1"') for line in lines] + [f"{key} {n} {EPOCH + n}.5{end}" for n in range(700, 1400)]
    few = read_dump("".join(f"# HELP\n{line}" if n % 50 == 0 else line for n, line in enumerate(lines)), "tsdb_dump")
    for size in (1 << 20, 9000):
        many = read_dump("".join(lines), "tsdb_dump", block=size)
        assert many.samples == few.samples
        assert many.read.counts.matched == few.read.counts.matched
        assert many.read.counts.unmatched == few.read.counts.unmatched
        assert many.read.counts.other == few.read.counts.other
    assert len(few.of(NAME, engine="0", model_name="d\u00e9j\u00e0 vu")) >= 1399


@pytest.mark.parametrize("time", [f"{EPOCH}", f"{EPOCH}.25", "5", "1e300", "x", f"{EPOCH}0000000", "NaN"])
def test_times_in_other_units_and_no_times_are_told_apart(time: str) -> None:
    key = f'{{__name__="{NAME}", engine="0"}}'
    lines = [f"{key} {n} {time if n == 400 else f'{EPOCH + n}000'}\n" for n in range(700)]
    many, few = read_dump("".join(lines), "tsdb_dump"), read_dump("# HELP\n".join(lines), "tsdb_dump")
    assert many.samples == few.samples
    assert many.read.counts.unmatched == few.read.counts.unmatched == (not time.startswith(f"{EPOCH}") or len(time) > 14)

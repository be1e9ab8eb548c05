"""Scrapes as text: forms of lines, how scrapes are placed in time, what is told apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from metric_reading import EPOCH, NEWEST, claimed_by, read_dump

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
HEAD = f"# HELP {RUNNING} Requests in the batch.\n# TYPE {RUNNING} gauge\n"


def scrape(running: float, waiting: float = 0) -> str:
    return f'{HEAD}{RUNNING}{{engine="0"}} {running}\n# TYPE {WAITING} gauge\n{WAITING}{{engine="0"}} {waiting}\n'


@pytest.mark.parametrize(
    "line",
    [
        f'{RUNNING}{{engine="0",model_name="m"}} 3.0',
        f'{RUNNING}{{engine="0",model_name="m",}} 3',
        f'{RUNNING} {{ engine = "0" , model_name = "m" }} 3e0',
        f'{RUNNING}{{model_name="m",engine="0"}}\t+3.',
        f'{RUNNING}{{engine="0",model_name="m"}}3',
        f'  {RUNNING}{{engine="0",model_name="m"}} 3',
        f'{{"{RUNNING}", engine="0", model_name="m"}} 3',
        f'{{"{RUNNING}","engine"="0","model_name"="m"}} 3',
        f'{{__name__="{RUNNING}", engine="0", model_name="m"}} 3',
        f'{RUNNING}{{engine="0",model_name="m"}} 3 # {{trace_id="a # {{b}}"}} 0.5 123.4',
        f'{RUNNING}{{engine="0",model_name="m"}}  3  ',
        f'100  5541    0  5541    0     0   1803k      0 --:--:-- --:--:-- --:--:-- 1803k\r{RUNNING}{{engine="0",model_name="m"}} 3',
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_sample_is_read_in_every_form(line: str, end: str) -> None:
    dump = read_dump(end.join((*HEAD.splitlines(), line, f'{WAITING}{{engine="0"}} 1', "")), "prometheus_text")
    assert dump.values(RUNNING, engine="0", model_name="m") == [3.0]
    assert dump.read.counts.unmatched == 0


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (r"a\\b", "a\\b"),
        (r"a\"b", 'a"b'),
        (r"a\nb", "a\nb"),
        (r"a\\nb", "a\\nb"),
        (r"a\tb", "a\\tb"),
        ("},{", "},{"),
        ("a b=c,d", "a b=c,d"),
        (" # {x} 1", " # {x} 1"),
        ("ä模", "ä模"),
        ("", ""),
    ],
)
def test_label_values_lose_their_escapes_and_nothing_else(written: str, value: str) -> None:
    dump = read_dump(f'{HEAD}{RUNNING}{{model_name="{written}",engine="0"}} 7\n')
    assert dump.values(RUNNING, model_name=value, engine="0") == [7.0]


@pytest.mark.parametrize(("text", "value"), [("NaN", None), ("+Inf", None), ("-Inf", None), ("1.5e-07", 1.5e-07), ("-0", 0.0)])
def test_special_values(text: str, value: float | None) -> None:
    assert read_dump(f"{HEAD}{RUNNING} {text}\n").values(RUNNING) == [value]


@pytest.mark.parametrize("bad", ["0x10", "1_000", "12abc", "1.2 K", "", "1 99", "{count:1}"])
def test_what_looks_like_a_sample_and_is_none_is_unmatched(bad: str) -> None:
    dump = read_dump(f'{HEAD}{RUNNING}{{engine="0"}} {bad}\n{WAITING}{{engine="0"}} 1\n', "prometheus_text")
    assert dump.of(RUNNING, engine="0") == []
    assert (dump.read.counts.unmatched, dump.read.counts.matched) == (1, 1)


def test_a_bad_value_of_a_known_series_is_unmatched_too() -> None:
    text = "".join(f"# scrape_ts {EPOCH + n}\n{scrape(n)}" for n in range(5)).replace("} 3\n", "} 3_0\n")
    dump = read_dump(text)
    assert dump.values(RUNNING, engine="0") == [0, 1, 2, 4]
    assert dump.read.counts.unmatched == 1


def test_the_type_is_that_of_the_family() -> None:
    text = (
        "# TYPE vllm:time_to_first_token_seconds histogram\n"
        'vllm:time_to_first_token_seconds_bucket{le="0.5"} 1\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 2\n'
        "vllm:time_to_first_token_seconds_sum 1.5\nvllm:time_to_first_token_seconds_count 2\n"
        "vllm:time_to_first_token_seconds_created 1.7e9\n"
        "# TYPE vllm:new_thing counter\nvllm:new_thing_total 4\n"
    )
    dump = read_dump(text)
    assert dump.types["vllm:time_to_first_token_seconds_bucket"] == "histogram"
    assert dump.types["vllm:new_thing_total"] == "counter"
    assert (dump.read.counts.matched, dump.read.counts.ignored) == (5, 3)
    assert dump.records[("vllm:time_to_first_token_seconds_sum", ())] == 4


@pytest.mark.parametrize(
    "moment",
    [
        "# scrape_ts {epoch}.25",
        "# scrape_ts {epoch}250",
        "# timestamp: {epoch}.25",
        "# time={epoch}.25",
        "# {epoch}.25",
        "{epoch}.250000000",
        "=== {iso}.250Z ===",
        "# date {iso}.250+00:00",
        "----- scrape 17 at {iso}.250Z -----",
        "### iteration 4: {iso},250000000+00:00",
    ],
)
def test_moments_before_scrapes_place_them(moment: str) -> None:
    text = ""
    for n in range(3):
        iso = datetime.fromtimestamp(EPOCH + n, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        text += moment.format(epoch=EPOCH + n, iso=iso) + "\n" + scrape(n)
    dump = read_dump(text)
    assert dump.times(RUNNING, engine="0") == [EPOCH + 0.25, EPOCH + 1.25, EPOCH + 2.25]
    assert dump.values(RUNNING, engine="0") == [0, 1, 2]
    assert (dump.read.clock, dump.read.notes) == ("samples", [])
    assert dump.read.first_ts == datetime.fromtimestamp(EPOCH + 0.25, UTC)


@pytest.mark.parametrize(
    "stamp",
    [
        "--- Mon Nov 30 07:07:56 UTC 2026",
        "Mon Nov 30 07:07:56 AM UTC 2026",
        "Mon 30 Nov 2026 07:07:56 AM UTC",
        "Mon, 30 Nov 2026 07:07:56 +0000",
        "2026-11-30 08:07:56+01:00",
        "# scrape_ts 2026-11-30T07:07:56Z",
    ],
)
def test_what_date_prints_is_a_moment(stamp: str) -> None:
    assert read_dump(f"{stamp}\n{scrape(1)}").times(RUNNING, engine="0") == [EPOCH]


def test_a_moment_without_a_zone_is_in_the_given_one_or_assumed() -> None:
    text = f"=== 2026-11-30 08:07:56 ===\n{scrape(1)}"
    given = read_dump(text, zone=timezone(timedelta(hours=1)))
    assert (given.times(RUNNING, engine="0"), given.read.notes) == ([EPOCH], [])
    assumed = read_dump(text)
    assert assumed.times(RUNNING, engine="0") == [EPOCH + 3600]
    assert any("read as UTC (set --tz)" in note for note in assumed.read.notes)
    assert (assumed.read.clock_assumed, given.read.clock_assumed) == (True, False)


def test_moments_behind_scrapes_are_told_from_those_before() -> None:
    text = "".join(f"{scrape(n)}# scrape_ts {EPOCH + n}\n" for n in range(4))
    dump = read_dump(text)
    assert list(zip(dump.times(RUNNING, engine="0"), dump.values(RUNNING, engine="0"), strict=True)) == [(EPOCH + n, n) for n in range(4)]
    assert read_dump(f"{scrape(5)}# scrape_ts {EPOCH}\n").times(RUNNING, engine="0") == [EPOCH]


def test_a_file_that_begins_inside_a_scrape_loses_only_that() -> None:
    text = f'{WAITING}{{engine="0"}} 9\n' + "".join(f"# scrape_ts {EPOCH + n}\n{scrape(n)}" for n in range(3))
    dump = read_dump(text)
    assert dump.of(WAITING, engine="0") == [((EPOCH + n) * 1_000_000, 0) for n in range(3)]
    assert dump.read.counts.ignored > 0
    assert any("no moment of their own" in note for note in dump.read.notes)


def test_a_failed_scrape_leaves_a_gap() -> None:
    text = f"# scrape_ts {EPOCH}\n{scrape(1)}# scrape_ts {EPOCH + 1}\n# scrape_failed curl_rc=7\n# scrape_ts {EPOCH + 2}\n{scrape(3)}"
    assert read_dump(text).of(RUNNING, engine="0") == [(EPOCH * 1_000_000, 1), ((EPOCH + 2) * 1_000_000, 3)]
    told_late = f"# scrape_ts {EPOCH}\n# scrape_failed\n{scrape(1)}"
    assert read_dump(told_late).of(RUNNING, engine="0") == []


def test_one_scrape_without_time_is_at_the_files_time_or_the_given_one() -> None:
    dump = read_dump(scrape(1))
    assert (dump.read.clock, dump.read.first_ts) == ("file", NEWEST)
    dump = read_dump(scrape(1), at=NEWEST - timedelta(days=1))
    assert (dump.read.clock, dump.read.first_ts) == ("given", NEWEST - timedelta(days=1))


@pytest.mark.parametrize(
    "between", ["", "# EOF\n", "\n\n", "$ curl -s localhost:8000/metrics\n", "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n"]
)
def test_of_several_scrapes_without_time_the_last_is_stored(between: str) -> None:
    dump = read_dump(between.join(scrape(n, 10 + n) for n in range(4)), "prometheus_text")
    assert (dump.values(RUNNING, engine="0"), dump.values(WAITING, engine="0")) == ([3], [13])
    assert any("only the last of 4 is stored" in note for note in dump.read.notes)
    assert (dump.read.counts.matched, dump.read.counts.unmatched) == (2, 0)


def test_scrapes_of_two_servers_under_one_moment_are_not_mixed() -> None:
    text = "".join(f"# scrape_ts {EPOCH + n}\n{scrape(n)}{scrape(100 + n)}" for n in range(3))
    dump = read_dump(text)
    assert dump.values(RUNNING, engine="0") == [0, 1, 2]
    assert any("several servers need a file each" in note for note in dump.read.notes)


def test_a_series_that_stands_twice_is_stored_once() -> None:
    dump = read_dump(f'# scrape_ts {EPOCH}\n{scrape(1)}{WAITING}{{engine="0"}} 5\n')
    assert dump.values(WAITING, engine="0") == [0]
    assert any("stand twice" in note for note in dump.read.notes)


def test_a_long_file_without_moments_keeps_only_its_last_scrape() -> None:
    series = "".join(f'{RUNNING}{{engine="{n}"}} %d\n' for n in range(3000))
    dump = read_dump("".join(series % ((turn,) * 3000) for turn in range(60)), "prometheus_text")
    assert dump.read.counts.matched == 3000
    assert dump.values(RUNNING, engine="2999") == [59]


def test_times_of_samples_are_stronger_than_moments() -> None:
    text = f'# scrape_ts {EPOCH + 500}\n# TYPE {RUNNING} untyped\n{RUNNING}{{instance="h:1",job="v"}} 4 {EPOCH}061\n'
    text += f'{RUNNING}{{instance="h:1",job="v"}} 5 {EPOCH + 1}061\n{RUNNING}{{instance="h:1",job="v"}} 6 {EPOCH + 2}061\n'
    dump = read_dump(text, "prometheus_text")
    assert dump.times(RUNNING, instance="h:1", job="v") == [EPOCH + 0.061, EPOCH + 1.061, EPOCH + 2.061]
    assert dump.read.clock == "samples"


def test_openmetrics_times_are_seconds_and_exemplars_are_left() -> None:
    name = "vllm:time_to_first_token_seconds"
    text = f"# TYPE {name} histogram\n# UNIT {name} seconds\n"
    for n in range(3):
        text += f'{name}_bucket{{le="0.5"}} {n} {EPOCH + n}.125 # {{trace_id="ab{n}"}} 0.4 {EPOCH}.1\n'
        text += f'{name}_bucket{{le="+Inf"}} {n} # {{trace_id="cd{n}"}} 0.9\n'
    text += f"{name}_created {EPOCH}.5\n# EOF\n"
    dump = read_dump(text, "prometheus_text")
    assert dump.times(f"{name}_bucket", le="0.5") == [EPOCH + 0.125, EPOCH + 1.125, EPOCH + 2.125]
    assert dump.values(f"{name}_bucket", le="0.5") == [0, 1, 2]
    # without a time of their own: only the last one, at the newest time there is
    assert dump.of(f"{name}_bucket", le="+Inf") == [((EPOCH + 2) * 1_000_000 + 125_000, 2)]


@pytest.mark.parametrize("unsound", ["1", "99999999999999999999999999", "1e300", "-5"])
def test_a_time_no_sample_can_have_is_unmatched(unsound: str) -> None:
    dump = read_dump(f"{HEAD}{RUNNING} 1 {EPOCH}000\n{RUNNING} 2 {unsound}\n{WAITING} 1 {EPOCH}000\n", "prometheus_text")
    assert dump.values(RUNNING) == [1]
    assert dump.read.counts.unmatched == 1


def test_what_a_terminal_shows_around_a_scrape_does_no_harm() -> None:
    text = (
        "root@host:~# curl -i localhost:8000/metrics\n"
        "  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n"
        "                                 Dload  Upload   Total   Spent    Left  Speed\n"
        "\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0"
        "\r100   541    0   541    0     0   180k      0 --:--:-- --:--:-- --:--:--  180k\n"
        "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 07:07:56 GMT\r\nserver: uvicorn\r\ncontent-type: text/plain; version=0.0.4\r\n\r\n"
        f"{scrape(3)}"
        "# HELP vllm:kv_cache_usage_perc Share of the blocks that\nare in use. 1 means 100 percent\n"
        "vllm:kv_cache_usage_perc 0.25\n"
        "root@host:~# "
    )
    assert claimed_by(text) == ["prometheus_text"]
    dump = read_dump(text)
    assert dump.times(RUNNING, engine="0") == [EPOCH]
    assert dump.values("vllm:kv_cache_usage_perc") == [0.25]
    assert not dump.read.counts.last_line_cut


def test_the_servers_date_places_each_answer() -> None:
    text = "".join(
        f"# scrape_ts {EPOCH + 60 * n}.5\nHTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 07:{7 + n:02d}:57 GMT\r\n\r\n{scrape(n)}"
        for n in range(3)
    )
    # the finer stamp of the loop, which agrees with it
    assert read_dump(text).times(RUNNING, engine="0") == [EPOCH + 60 * n + 0.5 for n in range(3)]
    late = text.replace("# scrape_ts", "# iteration")
    assert read_dump(late.replace(f"{EPOCH}.5", "1"), "prometheus_text").times(RUNNING, engine="0")[0] == EPOCH + 1


@pytest.mark.parametrize("end", [f'{RUNNING}{{engine="1"}} 1', f'{RUNNING}{{engine="1', "vllm:num_requests_run"])
def test_a_cut_last_line_is_left_and_told(end: str) -> None:
    dump = read_dump(f"{scrape(3)}{end}")
    assert dump.of(RUNNING, engine="1") == []
    assert dump.read.counts.last_line_cut
    assert "the last line is cut" in dump.read.notes


@pytest.mark.parametrize("end", ["# EOF", "$ ", "# HELP x y", "\n"])
def test_a_last_line_that_holds_no_value_is_not_cut(end: str) -> None:
    dump = read_dump(f"{scrape(3)}{end}")
    assert not dump.read.counts.last_line_cut
    assert dump.read.counts.matched == 2


def test_blocks_can_end_anywhere() -> None:
    text = "\ufeff" + "".join(f"# scrape_ts {EPOCH + n}\n{scrape(n, n * 2)}" for n in range(4))
    whole = read_dump(text, "prometheus_text")
    for size in (1, 2, 7, 64):
        parts = read_dump(text, "prometheus_text", block=size)
        assert (parts.samples, parts.records, parts.read.counts) == (whole.samples, whole.records, whole.read.counts)
    assert whole.values(WAITING, engine="0") == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        (HEAD * 2, "describes metrics and holds no sample"),
        (
            "# TYPE node_load1 gauge\nnode_load1 0.5\ngo_goroutines 8\nDCGM_FI_DEV_GPU_UTIL 9\napiserver_x 1\n",
            "holds samples of other programs only (DCGM_, apiserver_, go_ and 1 more)",
        ),
        (
            "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79e9\nprocess_open_fds 7\n",
            "holds samples of a process that is no model server",
        ),
        ("# scrape_ts 1796022476\n# scrape_failed\n", "holds no sample"),
    ],
)
def test_what_is_there_instead_is_told(text: str, nothing: str) -> None:
    read = read_dump(text, "prometheus_text").read
    assert (read.usable, read.nothing, read.streams) == (False, nothing, {})


def test_samples_of_other_programs_are_counted_and_left() -> None:
    dump = read_dump("".join(f"# scrape_ts {EPOCH + n}\n{scrape(n)}go_goroutines {n}\n" for n in range(5)))
    assert (dump.read.counts.other, dump.read.counts.matched, dump.read.engines) == (5, 10, {"vllm"})


def test_bytes_that_are_no_utf8_do_not_stop_the_reading() -> None:
    dump = read_dump(f'{HEAD}{RUNNING}{{model_name="a\udcff"}} 1\n')
    assert dump.values(RUNNING, model_name="a?") == [1]


def test_digits_that_are_no_number_are_no_rank_and_no_port() -> None:
    dump = read_dump(f'{HEAD}{RUNNING}{{engine="¹",instance="h:²"}} 1\n')
    assert dump.values(RUNNING, engine="¹", instance="h:²") == [1]
    assert dump.read.streams["h:²"].addresses == []


def test_the_servers_date_is_never_that_of_the_scrape_before_it() -> None:
    dump = read_dump(f"{scrape(0)}HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 07:07:56 GMT\r\n\r\n{scrape(1)}")
    assert dump.of(RUNNING, engine="0") == [(EPOCH * 1_000_000, 1)]


def test_a_bound_is_one_in_every_spelling() -> None:
    """Prometheus writes le="1" as le="1.0" since 3.0: a dump over its update has both, of one bucket."""
    name = "vllm:time_to_first_token_seconds_bucket"
    lines = [f'# scrape_ts {1764500000 + n}\n{name}{{le="{le}"}} {n}\n' for n, le in enumerate(("1", "1.0", "1e+0", "2.5"))]
    dump = read_dump("".join(lines), "prometheus_text")
    assert dump.values(name, le="1") == [0.0, 1.0, 2.0]
    assert dump.values(name, le="2.5") == [3.0]

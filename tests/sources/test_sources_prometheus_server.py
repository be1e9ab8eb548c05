"""A Prometheus server as an input: every sample comes over once, and what goes wrong is one line without secrets."""

from __future__ import annotations

import json
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import live_prometheus
from live_prometheus import (
    Answer,
    Exporter,
    Reply,
    forward_to,
    make_certificate,
    needs_prometheus,
    other_program,
    prometheus,
    web_server,
    write_past,
)

from analyzer.errors import ExitCode, KvpmError, NothingUsableError
from analyzer.sources import prometheus_api, prometheus_server
from analyzer.sources.prometheus_api import PrometheusOptions, source_name
from analyzer.sources.prometheus_server import PrometheusInput, preset_selectors

SECRET = "s3cr3t-token"
OLD = '{__name__=~"vllm:.+",job="old"}'
# The past that is written into the store: one sample a second, at whole seconds, so that chunk edges fall on samples.
BEGAN = int(time.time()) // 7200 * 7200 - 4 * 7200
SECONDS = 1500
SELDOM = range(0, SECONDS, 10)
Samples = dict[str, list[tuple[int, float]]]
"""Series, as sorted JSON labels, to (time in ms, value)."""


def labels(name: str, **more: str) -> str:
    return json.dumps({"__name__": name, **more}, sort_keys=True)


def past() -> tuple[list[str], Samples]:
    lines, truth = [], {}
    for number in range(8):
        own = {"job": "old", "instance": f"gpu{number}:8000", "engine": "0"}
        name = "vllm:num_requests_running" if number % 2 else "vllm:prompt_tokens_total"
        shown = ",".join(f'{k}="{v}"' for k, v in own.items())
        # every server has an outage of its own
        seconds = [s for s in range(SECONDS) if not 200 + 30 * number <= s < 260 + 30 * number]
        truth[labels(name, **own)] = [((BEGAN + s) * 1000, s * 3.0 + number) for s in seconds]
        lines.append((name, [f"{name}{{{shown}}} {s * 3.0 + number} {BEGAN + s}" for s in seconds]))
    lines.append(
        ("vllm:num_requests_waiting", [f'vllm:num_requests_waiting{{job="seldom",instance="gpu9:8000"}} {s} {BEGAN + s}' for s in SELDOM])
    )
    lines.sort(key=lambda family: family[0])
    told = {name: f"# TYPE {name.removesuffix('_total')} {'counter' if name.endswith('_total') else 'gauge'}" for name, _ in lines}
    text = []
    for name, samples in lines:
        text += [told.pop(name)] if name in told else []
        text += samples
    return text, truth


@dataclass
class Live:
    """The server under test: what was put into it, and up to when it was scraped when the tests began."""

    url: str
    store: Path
    truth: Samples
    exporter: Exporter
    scraped_until: datetime
    target: str


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    needs_prometheus()
    folder = tmp_path_factory.mktemp("prometheus")
    text, truth = past()
    write_past(folder / "data", text)
    exporter = Exporter()
    with ExitStack() as stack:
        model = stack.enter_context(web_server(exporter.answer))
        other = stack.enter_context(web_server(other_program))
        shutil.copytree(folder / "data", folder / "past")
        url = stack.enter_context(prometheus(folder, {"vllm": model, "node": other}))
        until = time.monotonic() + 20
        while len(exporter.served) < 7 and time.monotonic() < until:
            time.sleep(0.05)
        # the last scrape may still be on its way into the store
        time.sleep(0.3)
        yield Live(url, folder / "past", truth, exporter, datetime.now(UTC), urlsplit(model).netloc)


def options(url: str, **more: object) -> PrometheusOptions:
    """For the written past and its series, unless `more` says otherwise."""
    began = datetime.fromtimestamp(BEGAN, UTC)
    given: dict[str, object] = {"match": (OLD,), "since": began, "until": began + timedelta(seconds=SECONDS)}
    return PrometheusOptions(url, **{**given, **more})  # type: ignore[arg-type]


def collected(source: PrometheusInput) -> Samples:
    """All samples of all lines; a series that comes in several lines is put together in their order."""
    found: Samples = {}
    for line in source:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        answer = json.loads(line)
        assert answer["status"] == "success"
        assert answer["data"]["resultType"] == "matrix"
        for series in answer["data"]["result"]:
            key = json.dumps(series["metric"], sort_keys=True)
            found.setdefault(key, []).extend((round(t * 1000), float(v)) for t, v in series["values"])
    return found


def refused(url: str, **more: object) -> KvpmError:
    with pytest.raises(KvpmError) as caught:
        collected(PrometheusInput(options(url, **more)))
    error = caught.value
    assert "\n" not in error.message + error.hint
    assert SECRET not in error.message + error.hint + repr(error)
    assert error.hint
    return error


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, which then take no time."""
    found: list[float] = []
    monkeypatch.setattr(prometheus_api.time, "sleep", found.append)
    return found


def test_every_scrape_comes_over_as_it_was_served(live: Live) -> None:
    since = live.scraped_until - timedelta(minutes=1)
    source = PrometheusInput(PrometheusOptions(live.url, since=since, until=live.scraped_until))
    found = collected(source)
    own = {"job": "vllm", "instance": live.target}
    served = live.exporter.served
    wanted = [k for k in served[0] if not k.startswith(("python", "vllm:generation_tokens_created"))]
    assert len(found) == len(wanted) + 1  # and `up`
    tokens = found[labels("vllm:generation_tokens_total", engine="0", model_name='m"x', **own)]
    times, numbers = [t for t, _ in tokens], [round((v - 0.5) / 1000) for _, v in tokens]
    # on a busy machine a scrape may be too late to count, so they are told by a value that never repeats
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 4
    for shown in wanted:
        name, _, rest = shown.partition("{")
        more = {k: v.replace('\\"', '"') for k, v in re.findall(r'(\w+)="((?:\\.|[^"\\])*)"', rest)}
        assert found[labels(name, **more, **own)] == [(t, served[n][shown]) for t, n in zip(times, numbers, strict=True)]
    assert {t for t, v in found[labels("up", **own)] if v == 1} == set(times)
    assert not source.cut
    assert source.size > 1000
    assert source.sha256


def test_a_written_past_comes_over_exactly(live: Live) -> None:
    source = PrometheusInput(options(live.url))
    assert collected(source) == live.truth
    assert (source.cut, source.notes, source.packing) == (False, [], None)


@pytest.mark.parametrize("most", [300, 2_001, 7_777])
def test_many_small_chunks_give_what_one_gives(live: Live, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(prometheus_server, "_MOST_SAMPLES", most)
    source = PrometheusInput(options(live.url))
    lines = list(source)
    assert len(lines) >= SECONDS * 6 // most
    sizes = [sum(len(s["values"]) for s in json.loads(line)["data"]["result"]) for line in lines]
    assert max(sizes) <= 1.3 * most  # outages lower what a second seems to hold
    assert collected(PrometheusInput(options(live.url))) == live.truth


def test_series_that_are_scraped_seldom_take_few_answers(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_server, "_MOST_SAMPLES", 30)
    lines = list(PrometheusInput(options(live.url, match=('{job="seldom"}',))))
    samples = [len(json.loads(line)["data"]["result"][0]["values"]) for line in lines]
    assert sum(samples) == len(SELDOM)
    # one a second is taken for granted at first, and then the length grows by no more than four times
    assert samples[:3] == [3, 12, 30]
    assert len(lines) < 10


def left_open(upstream: str) -> Answer:
    """The server as Prometheus 3 is: a range does not take the sample at its left end."""
    forward = forward_to(upstream)

    def answer(path: str, headers: dict[str, str]) -> Reply:
        status, told, body = forward(path, headers)
        asked = parse_qs(urlsplit(path).query)
        width = re.search(r"\[(\d+)ms\]$", asked.get("query", [""])[0])
        if status == 200 and width:
            left = round(float(asked["time"][0]) * 1000) - int(width[1])
            reply = json.loads(body)
            for series in reply["data"]["result"]:
                series["values"] = [v for v in series["values"] if round(v[0] * 1000) > left]
            body = json.dumps(reply).encode()
        return status, told, body

    return answer


@pytest.mark.parametrize("most", [300, 500_000])
def test_ranges_that_are_open_on_the_left_lose_nothing(live: Live, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(prometheus_server, "_MOST_SAMPLES", most)
    with web_server(left_open(live.url)) as url:
        assert collected(PrometheusInput(options(url))) == live.truth


def test_since_and_until_are_taken_to_the_millisecond(live: Live) -> None:
    began = datetime.fromtimestamp(BEGAN, UTC)
    inside = options(live.url, since=began + timedelta(seconds=10), until=began + timedelta(seconds=20))
    outside = options(live.url, since=began + timedelta(seconds=9.001), until=began + timedelta(seconds=20.999))
    expected = {k: [(t, v) for t, v in s if 10 <= t / 1000 - BEGAN <= 20] for k, s in live.truth.items()}
    assert collected(PrometheusInput(inside)) == expected
    assert collected(PrometheusInput(outside)) == expected


def test_selectors_that_overlap_give_a_series_once(live: Live) -> None:
    both = ('vllm:prompt_tokens_total{job="old"}', OLD, '{job="old",instance="gpu1:8000"}')
    assert collected(PrometheusInput(options(live.url, match=both))) == live.truth
    assert collected(PrometheusInput(options(live.url, match=(OLD, OLD)))) == live.truth


def test_the_same_time_gives_the_same_hash(live: Live) -> None:
    one, two = PrometheusInput(options(live.url)), PrometheusInput(options(live.url))
    assert b"".join(one) == b"".join(two)
    assert one.sha256 == two.sha256
    assert PrometheusInput(options(live.url)).sha256 is None


@pytest.mark.parametrize("most_points", [11_000, 37])
def test_a_step_gives_a_value_at_every_step(live: Live, monkeypatch: pytest.MonkeyPatch, most_points: int) -> None:
    monkeypatch.setattr(prometheus_server, "_MOST_POINTS", most_points)
    found = collected(PrometheusInput(options(live.url, step_s=7.5)))
    assert found.keys() == live.truth.keys()
    for key, samples in found.items():
        first = -(-BEGAN * 1000 // 7500) * 7500
        assert [t for t, _ in samples] == list(range(first, (BEGAN + SECONDS) * 1000 + 1, 7500))
        last_known = {t: max((s for s in live.truth[key] if s[0] <= t), default=None) for t, _ in samples}
        assert all(last_known[t] is not None and last_known[t][1] == v for t, v in samples)


def test_more_points_than_the_server_gives_are_asked_for_in_parts(live: Live) -> None:
    found = collected(PrometheusInput(options(live.url, step_s=0.1, match=('vllm:num_requests_running{instance="gpu1:8000"}',))))
    (samples,) = found.values()
    assert [t for t, _ in samples] == list(range(BEGAN * 1000, (BEGAN + SECONDS) * 1000 + 1, 100))


@pytest.mark.parametrize("step_s", [None, 1.0])
def test_too_many_samples_for_the_server_are_asked_for_in_halves(live: Live, tmp_path: Path, step_s: float | None) -> None:
    shutil.copytree(live.store, tmp_path / "data")
    with prometheus(tmp_path, {}, "--query.max-samples=600") as url:
        assert collected(PrometheusInput(options(url, step_s=step_s))) == (
            collected(PrometheusInput(options(live.url, step_s=step_s))) if step_s else live.truth
        )


def test_a_server_that_allows_hardly_anything_is_told(live: Live, tmp_path: Path) -> None:
    shutil.copytree(live.store, tmp_path / "data")
    with prometheus(tmp_path, {}, "--query.max-samples=3") as url:
        error = refused(url)
    assert "too many samples" in error.message
    assert "--match" in error.hint


@pytest.mark.parametrize("wrong", ["vllm:x{", "{}", "rate(vllm:x[1m])", "vllm:x[5m]", "vllm:x #", "1"])
def test_a_wrong_selector_is_told_in_the_servers_words(live: Live, wrong: str) -> None:
    error = refused(live.url, match=(wrong,))
    assert "--match" in error.hint
    assert "--match" in error.message or "refuses the query (status 400): " in error.message


def test_no_series_says_what_the_server_has(live: Live) -> None:
    error = refused(live.url, match=("nothing_like_this",))
    assert isinstance(error, NothingUsableError)
    assert error.exit_code == ExitCode.NOTHING_USABLE
    assert "0 series match" in error.message
    assert "vllm:" in error.hint
    assert "node_" in error.hint


def test_no_sample_at_that_time_says_how_many_series_match(live: Live) -> None:
    late = datetime.fromtimestamp(BEGAN + 2 * SECONDS, UTC)
    error = refused(live.url, since=late, until=late + timedelta(seconds=60))
    assert isinstance(error, NothingUsableError)
    assert "8 series match, and none has a sample between 20" in error.message
    assert "--since" in error.hint


def test_the_last_six_hours_are_the_default(live: Live) -> None:
    source = PrometheusInput(PrometheusOptions(live.url, match=('up{job="vllm"}',)))
    assert collected(source).keys() == {labels("up", job="vllm", instance=live.target)}
    (note,) = source.notes
    began = datetime.strptime(note.split(" on;")[0], "read from %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - began - timedelta(hours=6)) < timedelta(seconds=30)


def wants_header(upstream: str, name: str, value: str) -> Answer:
    """A door keeper; what it says to strangers repeats what they showed."""
    forward = forward_to(upstream)

    def answer(path: str, headers: dict[str, str]) -> Reply:
        shown = headers.get(name.lower(), "")
        if shown != value:
            return 401, {"Content-Type": "text/plain"}, f"not {shown}".encode()
        return forward(path, headers)

    return answer


def test_every_way_to_authorize_opens_the_door(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET + "\n")
    monkeypatch.setenv("KVPM_TEST_AUTH", f"Bearer {SECRET}")
    with web_server(wants_header(live.url, "Authorization", f"Bearer {SECRET}")) as url:
        for way in (
            {"headers": (("authorization", f"Bearer {SECRET}"),)},
            {"header_env": (("Authorization", "KVPM_TEST_AUTH"),)},
            {"bearer_token_file": token},
            {"bearer_token_file": token, "user": "someone:else"},
        ):
            given = options(url, **way)
            assert SECRET not in repr(given)
            assert collected(PrometheusInput(given)) == live.truth
    with web_server(wants_header(live.url, "Authorization", "Basic bWU6cEBzcw==")) as url:
        assert collected(PrometheusInput(options(url.replace("//", "//me:p%40ss@")))) == live.truth
        assert collected(PrometheusInput(options(url, user="me:p@ss"))) == live.truth
    with web_server(wants_header(live.url, "X-Scope-OrgID", "team")) as url:
        assert collected(PrometheusInput(options(url, headers=(("X-Scope-OrgID", "team"),)))) == live.truth


def test_a_closed_door_is_told_without_the_secret(live: Live) -> None:
    with web_server(wants_header(live.url, "Authorization", "something else")) as url:
        error = refused(url, headers=(("Authorization", f"Bearer {SECRET}"),))
        assert "401" in error.message
        assert "--header" in error.hint
        assert "401" in refused(url.replace("//", f"//me:{SECRET}@")).message
        assert "401" in refused(f"{url}?token={SECRET}").message


def test_an_error_text_that_repeats_a_secret_is_cleaned() -> None:
    def answer(path: str, headers: dict[str, str]) -> Reply:
        told = f"bad\nrequest by {headers['authorization']} for {path} " + "x" * 1000
        return 400, {}, json.dumps({"status": "error", "errorType": "bad_data", "error": told}).encode()

    with web_server(answer) as url:
        error = refused(f"{url}?apikey={SECRET}2", headers=(("Authorization", f"Bearer {SECRET}"),))
    assert "bad request by *** for " in error.message
    assert len(error.message) < 300


@pytest.mark.parametrize(
    "way",
    [
        {"headers": (("Authorization", f"{SECRET}\r\nX: y"),)},
        {"headers": (("Author ization", SECRET),)},
        {"headers": (("Authorization", f"{SECRET}\u20ac"),)},
        {"header_env": (("Authorization", "KVPM_TEST_UNSET"),)},
        {"bearer_token_file": Path("/nowhere/token")},
        {"ca_file": Path("/nowhere/ca.pem")},
        {"step_s": 0.0},
        {"step_s": float("nan")},
        {"until": datetime(2000, 1, 1, tzinfo=UTC)},
    ],
)
def test_options_that_cannot_be_used_are_told_before_anything_is_asked(way: dict[str, object]) -> None:
    refused("http://127.0.0.1:9", **way)


@pytest.mark.parametrize("url", [f"me:{SECRET}@host:9090", "host:9090", "ftp://host", "http://", "http://host:99999", f"http://[{SECRET}"])
def test_what_is_no_url_is_told_without_repeating_it(url: str) -> None:
    assert "http://HOST:PORT" in refused(url).hint


def test_the_source_name_holds_no_secret() -> None:
    assert source_name(f"https://me:{SECRET}@mimir:8080/prometheus/?k={SECRET}#{SECRET}") == "https://mimir:8080/prometheus"
    assert source_name("http://[::1]:9090/api/v1/query") == source_name("http://[::1]:9090/graph") == "http://[::1]:9090"


def test_the_api_may_stand_below_a_path_and_want_parameters(live: Live) -> None:
    forward = forward_to(live.url)

    def answer(path: str, headers: dict[str, str]) -> Reply:
        if not path.startswith("/select/0/prometheus/api/v1/") or parse_qs(urlsplit(path).query).get("tenant") != ["a b"]:
            return 404, {}, b"404 page not found"
        return forward(path.removeprefix("/select/0/prometheus"), headers)

    with web_server(answer) as url:
        assert collected(PrometheusInput(options(f"{url}/select/0/prometheus/?tenant=a%20b"))) == live.truth
        error = refused(url)
    assert "no Prometheus: status 404" in error.message
    assert "mimir/prometheus" in error.hint


def test_tls_is_checked(live: Live, tmp_path: Path, waits: list[float]) -> None:
    if not shutil.which("openssl"):
        pytest.skip("needs the program openssl")
    certificate, key = make_certificate(tmp_path)
    with web_server(forward_to(live.url), tls=(certificate, key)) as url:
        error = refused(url)
        assert "self-signed certificate" in error.message
        assert "--ca-file" in error.hint
        assert collected(PrometheusInput(options(url, ca_file=certificate))) == live.truth
        source = PrometheusInput(options(url, insecure=True))
        assert collected(source) == live.truth
        assert source.notes == ["the certificate of the server was not checked"]
        assert "broke" in refused(url.replace("https", "http")).message
    with web_server(forward_to(live.url)) as url:
        assert "no TLS connection" in refused(url.replace("http", "https")).message


@pytest.mark.parametrize(
    "text", ["Client sent an HTTP request to an HTTPS server.\n", "<html>The plain HTTP request was sent to HTTPS port"]
)
def test_a_server_that_wants_tls_is_told(text: str) -> None:
    with web_server(lambda path, headers: (400, {}, text.encode())) as url:
        error = refused(url)
    assert "wants TLS" in error.message
    assert "https://" in error.hint


class Moody:
    """A server that fails some questions: `moods` are what it does with the next ones, None is to answer."""

    def __init__(self, upstream: str, *moods: Reply | None) -> None:
        self._forward = forward_to(upstream)
        self.moods = list(moods)
        self.asked = 0

    def __call__(self, path: str, headers: dict[str, str]) -> Reply:
        self.asked += 1
        mood = self.moods.pop(0) if self.moods else None
        return self._forward(path, headers) if mood is None else mood


def error_reply(status: int, kind: str, text: str) -> Reply:
    return status, {}, json.dumps({"status": "error", "errorType": kind, "error": text}).encode()


BROKEN: Reply = (200, {"Content-Length": "5000"}, b'{"status":"succ')


@pytest.mark.parametrize("passing", [(429, {}, b""), (502, {}, b"<html>"), (503, {}, b"busy"), (504, {}, b""), BROKEN])
def test_what_passes_is_tried_again(live: Live, waits: list[float], passing: Reply) -> None:
    moody = Moody(live.url, passing, passing, None, passing, None, passing, passing, passing)
    with web_server(moody) as url:
        source = PrometheusInput(options(url))
        assert collected(source) == live.truth
    assert not source.cut
    assert moody.asked == 6 + 3
    assert waits == [0, 1.0, 0, 0, 1.0, 2.0]


def test_retry_after_is_kept_to_but_not_for_hours(live: Live, waits: list[float]) -> None:
    moods = [(503, {"Retry-After": wait}, b"") for wait in ("7", "86400", "soon")]
    with web_server(Moody(live.url, *moods)) as url:
        assert collected(PrometheusInput(options(url))) == live.truth
    assert waits == [7, 30, 2.0]


def test_a_server_that_stays_busy_is_told(waits: list[float]) -> None:
    moody = Moody("", *[(503, {}, b"busy")] * 9)
    with web_server(moody) as url:
        error = refused(url)
    assert "answers with status 503" in error.message
    assert error.exit_code == ExitCode.INPUT_CUT
    assert moody.asked == 5


@pytest.mark.parametrize(
    "too_much",
    [
        error_reply(503, "timeout", "query timed out in expression evaluation"),
        error_reply(422, "execution", "query processing would load too many samples into memory in query execution"),
        (413, {}, b"Request Entity Too Large"),
    ],
)
def test_a_chunk_that_is_too_much_is_halved(live: Live, waits: list[float], too_much: Reply) -> None:
    moody = Moody(live.url, None, None, too_much, too_much)
    with web_server(moody) as url:
        assert collected(PrometheusInput(options(url))) == live.truth
    assert moody.asked == 2 + 2 + 4
    assert waits == []


def test_an_answer_that_is_too_large_is_asked_for_in_halves(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PrometheusInput(options(live.url))
    longest = max(len(line) for line in whole)
    monkeypatch.setattr(prometheus_api, "_MOST_BYTES", longest // 2)
    monkeypatch.setattr(prometheus_api, "_BLOCK", 4096)
    source = PrometheusInput(options(live.url))
    assert collected(source) == live.truth


def test_a_server_that_is_too_slow_is_given_up(live: Live) -> None:
    slow = error_reply(503, "timeout", "query timed out in expression evaluation")
    moody = Moody(live.url, None, None, *[slow] * 99)
    with web_server(moody) as url:
        assert "took too long: query timed out" in refused(url).message
    assert moody.asked == 2 + 5


def test_no_answer_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_api, "_GRACE_S", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        assert "no answer within 0.1 s" in refused(url, timeout_s=0.1).message
        assert time.monotonic() - began < 10


def test_nothing_listens_there(waits: list[float]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert refused(f"http://me:{SECRET}@127.0.0.1:{port}").message == f"no Prometheus at 127.0.0.1:{port}: connection refused"
    assert waits == []


def test_there_is_no_such_host() -> None:
    assert "no host of the name" in refused("http://no-such-host.invalid:9090").message


def test_a_break_halfway_keeps_what_was_read(live: Live, monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:
    monkeypatch.setattr(prometheus_server, "_MOST_SAMPLES", 2_000)
    moody = Moody(live.url, None, None, None, None, None, *[(502, {}, b"")] * 5)
    with web_server(moody) as url:
        source = PrometheusInput(options(url))
        found = collected(source)
    assert source.cut
    (note,) = source.notes
    told = re.match(r"what the server holds after (.+) UTC was not read: .* answers with status 502$", note)
    assert told
    until = datetime.strptime(told[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    assert BEGAN + 100 < until < BEGAN + SECONDS - 100
    assert found == {k: [s for s in samples if s[0] <= until * 1000] for k, samples in live.truth.items()}


def test_a_redirect_on_the_same_server_keeps_the_headers(live: Live) -> None:
    inner = wants_header(live.url, "Authorization", SECRET)

    def answer(path: str, headers: dict[str, str]) -> Reply:
        if path.startswith("/old/"):
            return 302, {"Location": path.removeprefix("/old")}, b"moved"
        return inner(path, headers)

    with web_server(answer) as url:
        assert collected(PrometheusInput(options(url + "/old", headers=(("Authorization", SECRET),)))) == live.truth


def test_a_redirect_to_another_server_takes_no_header_along(live: Live) -> None:
    seen: list[dict[str, str]] = []
    forward = forward_to(live.url)

    def stranger(path: str, headers: dict[str, str]) -> Reply:
        seen.append(headers)
        return forward(path, headers)

    with web_server(stranger) as there, web_server(lambda path, headers: (307, {"Location": there + path}, b"")) as url:
        given = options(url.replace("//", f"//me:{SECRET}@"), headers=(("X-Api-Key", SECRET),))
        assert collected(PrometheusInput(given)) == live.truth
    assert seen
    assert all(not h.keys() & {"authorization", "x-api-key"} for h in seen)


def test_redirects_in_a_circle_end() -> None:
    with web_server(lambda path, headers: (302, {"Location": path}, b"")) as url:
        assert "redirects in a circle" in refused(url).message


@pytest.mark.parametrize("body", [b"<!doctype html><title>Sign in</title>", b"", b"{}", b'{"status":"success","data":{"result":3}}'])
def test_what_is_no_prometheus_is_told(body: bytes) -> None:
    with web_server(lambda path, headers: (200, {"Content-Type": "text/html"}, body)) as url:
        error = refused(url)
    assert "is no Prometheus: " in error.message
    assert ("web page" in error.message) == body.startswith(b"<")
    assert "/api/v1" in error.hint


def test_a_sign_in_page_of_another_host_is_told() -> None:
    with (
        web_server(lambda path, headers: (200, {}, b"<html>sign in")) as there,
        web_server(lambda path, headers: (302, {"Location": there}, b"")) as url,
    ):
        error = refused(url)
    assert "redirect to another host" in error.message
    assert "sign-in" in error.hint


def test_the_preset_takes_all_spellings_and_leaves_the_rest() -> None:
    (selector,) = preset_selectors()
    wanted, unwanted = re.findall(r'__name__[=!]~"([^"]+)"', selector)
    taken = (
        "vllm:num_requests_running sglang:token_usage sglang_token_usage vllm_num_requests_running ray_vllm_num_requests_running "
        "lmcache:num_hit_tokens_total lmcache_mp_l1_usage sglang:queue_time_seconds_bucket"
    )
    left = "up node_load1 vllm: my_vllm:x vllm:prompt_tokens_created vllm:ttft:rate5m sglang:func_latency_seconds_bucket sglangx"
    names = taken.split() + left.split()
    assert [n for n in names if re.fullmatch(wanted, n) and not re.fullmatch(unwanted, n)] == taken.split()


def test_many_targets_are_asked_for_in_parts(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_server, "_TARGETS_A_QUERY", 3)
    asked: list[str] = []
    forward = forward_to(live.url)

    def answer(path: str, headers: dict[str, str]) -> Reply:
        asked.extend(parse_qs(urlsplit(path).query).get("query", []))
        return forward(path, headers)

    with web_server(answer) as url:
        found = collected(PrometheusInput(options(url, match=())))
    assert {key: samples for key, samples in found.items() if '"old"' in key} == live.truth
    assert len(found) == len(live.truth) + 1
    parts = {re.sub(r".*instance=~\"(.*)\"\}.*", r"\1", q) for q in asked if "process_start" in q}
    assert parts == {r"gpu0:8000|gpu1:8000|gpu2:8000", r"gpu3:8000|gpu4:8000|gpu5:8000", r"gpu6:8000|gpu7:8000", r"gpu9:8000"}


def test_odd_target_names_are_quoted(tmp_path: Path) -> None:
    needs_prometheus()
    odd = 'a"b\\c|d.e\nf'
    shown = odd.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines = ["# TYPE up gauge", *(f'up{{instance="{i}",job="{shown}"}} 1 {BEGAN}' for i in (shown, "d.e", "dxe"))]
    lines += ["# TYPE vllm:x gauge", f'vllm:x{{instance="{shown}",job="{shown}"}} 1 {BEGAN}']
    write_past(tmp_path / "data", lines)
    with prometheus(tmp_path, {}) as url:
        found = collected(PrometheusInput(options(url, match=())))
    own = {"job": odd, "instance": odd}
    assert found.keys() == {labels("up", **own), labels("vllm:x", **own)}


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_the_program_ci_fails_and_others_skip(monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]) -> None:
    monkeypatch.setattr(live_prometheus, "PROMETHEUS", None)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome):
        needs_prometheus()

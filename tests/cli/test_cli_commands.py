"""The command line from outside: exit codes, messages, and what goes to standard output."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from analyzer.trace.manifest import FORMAT_VERSION

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "sample_traces"
L1_LOG = SAMPLES / "recorded_l1_bound" / "server.log"

Run = Callable[..., tuple[int, str, str]]


def test_diagnose_prints_the_verdict_first(kvpm: Run) -> None:
    code, out, _ = kvpm("diagnose", str(L1_LOG), "--year", "2026")
    assert code == 0
    assert out.startswith("l1_bound  confidence high\n")
    # a long path moves the place where lines are folded
    assert "1,458 lines = 26 matched" in " ".join(out.split())


def test_diagnose_json_is_one_object(kvpm: Run) -> None:
    code, out, _ = kvpm("diagnose", str(L1_LOG), "--year", "2026", "--json")
    document = json.loads(out)
    assert code == 0
    assert next(iter(document)) == "schema_version"
    assert document["verdict"]["cause"] == "l1_bound"
    assert document["window"] == {"start": "2026-11-30T07:08:32Z", "end": "2026-11-30T07:09:52Z"}
    assert document["peaks"]["preemptions"] is None
    assert "V1" in document["peaks"]["notes"]["preemptions"]


def test_standard_input_and_gzip_give_the_same(kvpm: Run, tmp_path: Path) -> None:
    data = L1_LOG.read_bytes()
    packed = tmp_path / "server.txt"  # the packing is told by content, not by name
    packed.write_bytes(gzip.compress(data))
    _, from_stdin, _ = kvpm("diagnose", "-", "--year", "2026", "--json", stdin=data)
    _, from_gzip, _ = kvpm("diagnose", str(packed), "--year", "2026", "--json")
    a, b = json.loads(from_stdin), json.loads(from_gzip)
    for part in ("window", "peaks"):
        assert a[part] == b[part]
    assert a["verdict"]["sentence"] == b["verdict"]["sentence"]


def test_a_stored_trace_gives_what_the_log_gave(kvpm: Run) -> None:
    code, out, _ = kvpm("ingest", str(L1_LOG), "--year", "2026", "-o", "a.kvtrace")
    assert code == 0
    assert out.startswith("a.kvtrace\n")
    _, from_trace, _ = kvpm("diagnose", "a.kvtrace", "--json")
    _, from_log, _ = kvpm("diagnose", str(L1_LOG), "--year", "2026", "--json")
    a, b = json.loads(from_trace), json.loads(from_log)
    a.pop("trace"), b.pop("trace")
    assert a == b


def test_report_is_written_once_and_not_over_another(kvpm: Run, tmp_path: Path) -> None:
    code, out, _ = kvpm("report", str(L1_LOG), "--year", "2026", "-o", "r.html")
    assert code == 0
    assert out.splitlines()[-1] == "report: r.html"
    first = (tmp_path / "r.html").read_bytes()
    code, _, err = kvpm("report", str(L1_LOG), "--year", "2026", "-o", "r.html")
    assert (code, err.splitlines()[0]) == (2, "kvpm: r.html exists already")
    assert "--force" in err
    code, _, _ = kvpm("report", str(L1_LOG), "--year", "2026", "-o", "r.html", "--force")
    assert code == 0
    assert (tmp_path / "r.html").read_bytes() == first


def test_report_to_standard_output(kvpm: Run) -> None:
    code, out, _ = kvpm("report", str(L1_LOG), "--year", "2026", "-o", "-")
    assert code == 0
    assert out.lstrip().lower().startswith("<!doctype html>")


def test_demo_says_where_the_report_is_and_reads_all_three_inputs(kvpm: Run, tmp_path: Path) -> None:
    code, out, _ = kvpm("demo")
    assert code == 0
    assert "report: demo_report.html" in out
    html = (tmp_path / "demo_report.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "L1-bound" in html
    assert str(ROOT) not in html
    for file in ("server.log", "metrics.prom.gz", "client.jsonl.gz"):
        assert file in html
    assert "exact, from 409 requests as the client saw them" in html


def test_fail_on(kvpm: Run) -> None:
    assert kvpm("diagnose", str(L1_LOG), "--year", "2026", "--fail-on", "l1_bound")[0] == 1
    assert kvpm("diagnose", str(L1_LOG), "--year", "2026", "--fail-on", "cap_bound")[0] == 0
    assert kvpm("diagnose", str(L1_LOG), "--fail-on", "weather")[0] == 2


def test_since_and_until_move_the_incident(kvpm: Run) -> None:
    _, out, _ = kvpm("diagnose", str(L1_LOG), "--year", "2026", "--json", "--since", "07:20")
    assert json.loads(out)["peaks"]["waiting"] == 13
    _, out, _ = kvpm("diagnose", str(L1_LOG), "--year", "2026", "--json", "--until", "2026-11-30T07:08:25Z")
    assert json.loads(out)["verdict"]["cause"] == "none"
    code, _, err = kvpm("diagnose", str(L1_LOG), "--since", "08:00", "--until", "07:00")
    assert (code, err.splitlines()[0]) == (2, "kvpm: --since is not before --until")


def test_tz_shifts_to_utc(kvpm: Run) -> None:
    _, out, _ = kvpm("diagnose", str(L1_LOG), "--year", "2026", "--json", "--tz", "+08:00")
    assert json.loads(out)["window"]["start"] == "2026-11-29T23:08:32Z"
    code, _, err = kvpm("diagnose", str(L1_LOG), "--tz", "Mars/Olympus")
    assert code == 2
    assert "unknown time zone" in err


def test_sql_forms(kvpm: Run) -> None:
    query = "SELECT count(*) AS n, max(waiting) AS waiting FROM scheduler"
    assert kvpm("sql", str(L1_LOG), query, "--csv")[1].split() == ["n,waiting", "17,123"]
    assert json.loads(kvpm("sql", str(L1_LOG), query, "--json")[1]) == [{"n": 17, "waiting": 123}]
    assert "123" in kvpm("sql", str(L1_LOG), query)[1]
    assert "timeline" in kvpm("sql", str(L1_LOG))[1]
    assert json.loads(kvpm("sql", str(L1_LOG), "-", "--json", stdin=query.encode())[1])[0]["n"] == 17
    code, _, err = kvpm("sql", str(L1_LOG), "SELECT nonsense")
    assert code == 2
    assert err.startswith("kvpm: SQL: ")


def test_formats_list_and_explain(kvpm: Run) -> None:
    _, out, _ = kvpm("formats")
    assert "sglang.decode_batch" in out
    line = "[2026-01-02 03:04:05 TP0] Decode batch. #running-req: 24, #token: 8, token usage: 0.62, #queue-req: 3, #new-thing: 7"
    _, out, _ = kvpm("formats", "explain", line)
    assert "sglang.decode_batch" in out
    assert "running = 24" in out
    assert "#new-thing: 7  ->  unknown key, kept in extra" in out
    _, out, _ = kvpm("formats", "explain", "[2026-01-02 03:04:05 TP0] KV cache pool is full. Retract requests. #retracted_reqs: three")
    assert "none reads this message" in out
    assert "sglang.retract: read" in out


NOTHING = 3


@pytest.mark.parametrize(
    ("name", "content", "code", "says"),
    [
        ("empty.log", b"", NOTHING, "is empty"),
        ("picture.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", NOTHING, "is a JPEG picture"),
        ("other.log", b"[11/30/2026-05:55:58] [TRT-LLM] [I] ready\nINFO:  hello\n", NOTHING, "no line of a known engine"),
        ("app.log", b"[2026-01-02 03:04:05] Starting gunicorn 20.1\n" * 5, NOTHING, "no line of a known engine"),
        ("cut.log.gz", gzip.compress(L1_LOG.read_bytes())[:6000], 4, "was cut short"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_clear_line(kvpm: Run, tmp_path: Path, name: str, content: bytes, code: int, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    got, _, err = kvpm("diagnose", name)
    assert got == code
    assert says in err.splitlines()[0]
    assert err.startswith(f"kvpm: {name} ")


def test_a_folder_without_logs(kvpm: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert kvpm("diagnose", "notes")[0] == NOTHING
    (tmp_path / "notes" / "a.txt").write_text("hello")
    (tmp_path / "notes" / "b.txt").write_text("world")
    code, _, err = kvpm("diagnose", "notes")
    assert code == NOTHING
    assert "none of 2 files" in err


def test_paths_that_do_not_exist(kvpm: Run) -> None:
    assert kvpm("diagnose", "nowhere.log")[0] == 2
    assert kvpm("diagnose", "no*.log")[0] == 2
    assert kvpm("diagnose")[0] == 2


def test_a_file_without_permission(kvpm: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # whoever runs the tests may be root, whom no mode stops: refuse the opening itself
    target = tmp_path / "locked.log"
    target.write_text("x")
    real = Path.open

    def refuse(self: Path, *args: object, **kwargs: object) -> object:
        if self.name == "locked.log":
            raise PermissionError(13, "Permission denied")
        return real(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "open", refuse)
    code, _, err = kvpm("diagnose", "locked.log")
    assert (code, err.splitlines()[0]) == (4, "kvpm: locked.log cannot be read: Permission denied")


def test_a_trace_of_a_newer_format(kvpm: Run, tmp_path: Path) -> None:
    kvpm("ingest", str(L1_LOG), "-o", "a.kvtrace")
    manifest = tmp_path / "a.kvtrace" / "manifest.json"
    newer = f'"format_version": {FORMAT_VERSION + 1}'
    manifest.write_text(manifest.read_text().replace(f'"format_version": {FORMAT_VERSION}', newer, 1))
    code, _, err = kvpm("diagnose", "a.kvtrace")
    assert code == NOTHING
    assert f"has trace format {FORMAT_VERSION + 1}; this release reads up to {FORMAT_VERSION}" in err


def test_a_stored_trace_is_read_alone(kvpm: Run) -> None:
    kvpm("ingest", str(L1_LOG), "-o", "a.kvtrace")
    code, _, err = kvpm("diagnose", "a.kvtrace", str(L1_LOG))
    assert (code, err.splitlines()[0]) == (2, "kvpm: a stored trace is read alone")


def test_an_internal_error_is_one_line(kvpm: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(importlib.import_module("analyzer.cli.diagnose"), "diagnose_library", broken)
    code, _, err = kvpm("diagnose", str(L1_LOG))
    assert (code, err.splitlines()[0]) == (5, "kvpm: internal error: RuntimeError: first line")


def test_a_log_that_proves_nothing(kvpm: Run, tmp_path: Path) -> None:
    lines = [line for line in L1_LOG.read_text(encoding="utf-8").splitlines() if "Engine 000" not in line]
    (tmp_path / "a.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, out, _ = kvpm("diagnose", "a.log", "--year", "2026", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["verdict"]["cause"] == "insufficient_data"
    assert all(a["missing"] for a in document["checklist"] if a["answer"] == "cannot_tell")


def test_instance_names(kvpm: Run) -> None:
    for pattern in ("recorded_l1", "recorded_*_bound/server.log", "server.log"):
        _, out, _ = kvpm("diagnose", str(L1_LOG), "--instance", f"{pattern}=decode-7", "--json")
        assert [i["instance"] for i in json.loads(out)["instances"]] == ["decode-7"]
    _, out, _ = kvpm("diagnose", str(L1_LOG), "--instance", "elsewhere=decode-7", "--json")
    assert [i["instance"] for i in json.loads(out)["instances"]] == ["127.0.0.1:8112"]
    assert kvpm("diagnose", str(L1_LOG), "--instance", "decode-7")[0] == 2


def test_reading_again_with_another_zone_reads_again(kvpm: Run) -> None:
    first = "SELECT min(ts)::VARCHAR AS t FROM scheduler"
    kvpm("ingest", str(L1_LOG), "--year", "2026", "-o", "a.kvtrace")
    kvpm("ingest", str(L1_LOG), "--tz", "+08:00", "--year", "2026", "-o", "a.kvtrace")
    assert json.loads(kvpm("sql", "a.kvtrace", first, "--json")[1]) == [{"t": "2026-11-29 23:08:02+00"}]
    kvpm("ingest", str(L1_LOG), "-o", "a.kvtrace")  # says nothing of the zone: nothing changes
    assert json.loads(kvpm("sql", "a.kvtrace", first, "--json")[1]) == [{"t": "2026-11-29 23:08:02+00"}]


def test_diagnose_to_a_file(kvpm: Run, tmp_path: Path) -> None:
    assert kvpm("diagnose", str(L1_LOG), "--year", "2026", "-o", "d.txt")[:2] == (0, "")
    text = (tmp_path / "d.txt").read_text()
    assert text.startswith("l1_bound  confidence high\n")
    assert "\x1b" not in text
    assert kvpm("diagnose", str(L1_LOG), "-o", "d.txt")[0] == 2
    assert kvpm("diagnose", str(L1_LOG), "--year", "2026", "--json", "-o", "d.txt", "--force")[0] == 0
    assert json.loads((tmp_path / "d.txt").read_text())["schema_version"] == 2


def test_ingest_adds_and_force_makes_anew(kvpm: Run) -> None:
    cap = SAMPLES / "recorded_cap_bound" / "server.log"
    kvpm("ingest", str(L1_LOG), "-o", "a.kvtrace")
    kvpm("ingest", str(cap), "-o", "a.kvtrace")
    both = json.loads(kvpm("sql", "a.kvtrace", "SELECT count(*) AS n FROM sources", "--json")[1])
    assert both == [{"n": 2}]
    kvpm("ingest", str(cap), "-o", "a.kvtrace", "--force")
    assert json.loads(kvpm("sql", "a.kvtrace", "SELECT count(*) AS n FROM sources", "--json")[1]) == [{"n": 1}]


def test_compact_makes_few_files_of_many(kvpm: Run, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    line = "[2026-03-10 12:00:00] Decode batch, #running-req: 4, #token: 900, token usage: 0.09, cuda graph: True, #queue-req: 0\n"
    for _ in range(2):
        with log.open("a") as handle:
            handle.write(line * 4000)
        assert kvpm("ingest", str(log), "-o", "a.kvtrace")[0] == 0
    assert len(list((tmp_path / "a.kvtrace" / "scheduler").iterdir())) == 3
    code, out, _ = kvpm("compact", "a.kvtrace")
    assert (code, out) == (0, "a.kvtrace: 2 files of 1 input\n")
    assert json.loads(kvpm("sql", "a.kvtrace", "SELECT count(*) AS n FROM scheduler", "--json")[1]) == [{"n": 8000}]
    code, _, err = kvpm("compact", str(tmp_path))
    assert code == 3
    assert "is no stored trace" in err


@pytest.mark.parametrize("harm", ["gone", "cut"])
def test_a_damaged_trace(kvpm: Run, tmp_path: Path, harm: str) -> None:
    kvpm("ingest", str(L1_LOG), "-o", "a.kvtrace")
    (stored,) = (tmp_path / "a.kvtrace" / "scheduler").glob("*.parquet")
    if harm == "gone":
        stored.unlink()
    else:
        stored.write_bytes(stored.read_bytes()[:200])
    code, _, err = kvpm("diagnose", "a.kvtrace")
    assert code == 4
    assert err.startswith("kvpm: the stored trace a.kvtrace is damaged: ")
    assert "ingest the logs again" in err
    code, _, err = kvpm("ingest", str(SAMPLES / "recorded_cap_bound" / "server.log"), "--instance", "recorded=x", "-o", "a.kvtrace")
    assert (code, "is damaged" in err) == (4, True)


def test_the_evidence_is_not_written_over(kvpm: Run, tmp_path: Path) -> None:
    (tmp_path / "my.log").write_bytes(L1_LOG.read_bytes())
    for command in ("report", "diagnose"):
        code, _, err = kvpm(command, "my.log", "-o", "my.log", "--force")
        assert (code, err.splitlines()[0]) == (2, "kvpm: my.log is an input")
    assert (tmp_path / "my.log").read_bytes() == L1_LOG.read_bytes()


def test_an_empty_query_and_an_empty_zone(kvpm: Run) -> None:
    code, _, err = kvpm("sql", str(L1_LOG), "-", stdin=b"\n")
    assert (code, err.splitlines()[0]) == (2, "kvpm: the query is empty")
    assert kvpm("diagnose", str(L1_LOG), "--tz", "")[0] == 2


def test_a_file_name_as_long_as_it_can_be(kvpm: Run, tmp_path: Path) -> None:
    name = "a" * 251 + ".log"
    (tmp_path / name).write_bytes(L1_LOG.read_bytes())
    assert kvpm("diagnose", name, "--year", "2026")[0] == 0


def test_used_tokens_are_those_of_the_same_report(kvpm: Run) -> None:
    """A prefill line prints a share and no tokens: those of the decode line before are not set beside it."""
    log = SAMPLES / "l1_bound_sglang" / "server.log"
    query = (
        "SELECT count(*) AS n FROM timeline WHERE l1_used_tokens IS NOT NULL AND l1_used_tokens > (kv_usage + 0.006) * l1_capacity_tokens"
    )
    assert json.loads(kvpm("sql", str(log), query, "--json")[1]) == [{"n": 0}]
    query = "SELECT l1_used_tokens AS n FROM timeline WHERE bucket_ts = '2026-02-17 09:08:06'"
    assert json.loads(kvpm("sql", str(log), query, "--json")[1])[0]["n"] > 40_000


def test_a_pipe_is_read_from_its_first_byte(kvpm: Run, tmp_path: Path) -> None:
    """What is read of a pipe to recognise it would be gone: the start-up lines, and with them the cap."""
    cap = (SAMPLES / "recorded_cap_bound" / "server.log").read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # a command that fails before it opens the pipe leaves the writer waiting for ever
    writer = threading.Thread(target=pipe.write_bytes, args=(cap,), daemon=True)
    writer.start()
    code, out, err = kvpm("diagnose", str(pipe), "--year", "2026", "--json")
    assert code == 0, err
    writer.join()
    document = json.loads(out)
    assert document["verdict"]["cause"] == "cap_bound"
    assert document["sources"][0]["lines"] == cap.count(b"\n")

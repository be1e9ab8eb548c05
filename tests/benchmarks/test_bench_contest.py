"""What a run takes is measured, contests are held in turn, and bars and ratios say what was measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.contest import Contest, Reader, Results, Row, disagreements, hold, ratio
from benchmarks.process import LAUNCHER, Failed, run

MB = 1_000_000


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_memory_is_that_of_the_largest_moment(tmp_path: Path) -> None:
    small, large = (run(python(f"x = bytearray({size})"), tmp_path).peak for size in (1, 150 * MB))
    assert small < 50 * MB
    assert large > 150 * MB


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc")
def test_memory_of_processes_that_run_at_once_counts_together(tmp_path: Path) -> None:
    code = f"""
import os, time
begun, told = os.pipe()
child = os.fork()
x = bytearray({100 * MB})
if child == 0:
    os.write(told, b"x")
    time.sleep(0.5)
    os._exit(0)
os.read(begun, 1)
os.wait()
"""
    assert run(python(code), tmp_path).peak > 190 * MB


def test_cpu_seconds_are_of_children_too_and_waiting_is_none(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    child = python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])")
    assert run(child, tmp_path).cpu_s > 0.3
    waited = run(python("import time; time.sleep(0.4)"), tmp_path)
    assert waited.wall_s > 0.4
    assert waited.cpu_s < waited.wall_s


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="exit code 3: no such luck"):
        run(python("import sys; print('no such luck', file=sys.stderr); sys.exit(3)"), tmp_path)
    with pytest.raises(Failed, match="exit code 127: not-a-command: No such file"):
        run(["not-a-command"], tmp_path)


def test_the_command_ends_with_its_launcher(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    code = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid()) + '\\n'); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-I", "-S", str(LAUNCHER), str(tmp_path), *python(code)]) as launcher:
        while not (told.exists() and told.read_text(encoding="utf-8").endswith("\n")):
            time.sleep(0.01)
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait() == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text(encoding="utf-8")), 0)


def reader(name: str, tmp_path: Path, *, size: int | None = MB, at_least: float | None = None) -> Reader:
    """Writes its name into a file, and prints a number."""
    code = f"open({str(tmp_path / 'turns')!r}, 'a').write({name!r}); print(7)"
    return Reader(name, python(code), size, int, at_least)


def test_readers_take_turns_and_rows_have_what_they_took(tmp_path: Path) -> None:
    results = Results()
    contest = Contest("made up", reader("a", tmp_path), [reader("b", tmp_path, at_least=1e-6), reader("c", tmp_path)], 1, 1e-9)
    hold(contest, 3, tmp_path, lambda _: None, results)
    assert (tmp_path / "turns").read_text(encoding="utf-8") == "abcabcabc"
    assert [(row.reader, row.mb, row.found) for row in results.rows] == [("a", 1.0, 7), ("b", 1.0, 7), ("c", 1.0, 7)]
    ours, b, _ = results.rows
    assert ours.ratio is None
    assert ours.cpu_s is not None
    assert b.cpu_s is not None
    assert b.ratio == pytest.approx(b.cpu_s / ours.cpu_s)
    assert [(bar.what, bar.wanted, bar.met) for bar in results.bars] == [
        ("made up: rate, in parts of b", "≥ 1e-06", True),
        ("made up: a, CPU s", "< 1e-09", False),
        ("made up: peak memory of a, MB", "< 1e-06", False),
    ]
    assert results.failures == []


def test_a_peer_that_fails_stops_nothing_and_its_bar_is_not_met(tmp_path: Path) -> None:
    results = Results()
    gone = Reader("gone", ["not-a-command"], MB, int, at_least=0.1)
    hold(Contest("made up", reader("a", tmp_path), [gone, reader("c", tmp_path)]), 2, tmp_path, lambda _: None, results)
    assert (tmp_path / "turns").read_text(encoding="utf-8") == "acac"
    assert [row.cpu_s is None for row in results.rows] == [False, True, False]
    assert [(bar.measured, bar.met) for bar in results.bars] == [("failed", False)]
    assert results.failures == ["made up, gone: exit code 127: not-a-command: No such file or directory"]


def test_a_short_contest_has_more_turns(tmp_path: Path) -> None:
    hold(Contest("made up", reader("a", tmp_path), turns_at_least=4), 1, tmp_path, lambda _: None, Results())
    assert (tmp_path / "turns").read_text(encoding="utf-8") == "aaaa"


def test_ratios_are_of_rates_where_sizes_differ() -> None:
    ours = Row("i", "kvpm", mb=100.0, cpu_s=2.0)
    assert ratio(ours, Row("i", "slow", mb=10.0, cpu_s=5.0)) == pytest.approx(25.0)
    assert ratio(ours, Row("i", "fast", mb=100.0, cpu_s=0.5)) == pytest.approx(0.25)
    assert ratio(ours, Row("i", "failed", mb=100.0)) is None
    assert ratio(Row("i", "kvpm", cpu_s=0.1), Row("i", "python", cpu_s=0.02)) == pytest.approx(0.2)


def test_readers_of_the_same_bytes_have_to_agree() -> None:
    rows = [Row("i", "kvpm", 10.0, 5), Row("i", "a", 10.0, 5), Row("i", "b", 1.0, 2), Row("i", "c", 1.0, 3), Row("i", "d", 10.0, None)]
    assert disagreements(rows) == ["i, c: 3 found, where b found 2"]

"""The section on the page: what it says first, what it greys, what it leaves out, and that it stays text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from html import unescape
from unittest.mock import patch

import pytest
from parsed_page import Page
from replay_fakes import WHAT_IFS, goal, observed, study, vllm_study, what_if
from report_fakes import HOSTILE, fleet, l1_incident
from test_report_language import english
from test_report_language import said as text_of

from analyzer.language import use
from analyzer.replay.model import NoReplay, SettingRow, Study
from analyzer.report.data import build_report
from analyzer.report.model import ReportData
from analyzer.report.render import render_html
from analyzer.report.replay.data import Told, build_replay
from analyzer.report.replay.model import Failed, LeftOut

CHINESE = re.compile(r"[\u3400-\u9fff]")


@cache
def without(*, several: bool = False) -> ReportData:
    """A report without a replay, and without what is there to be explored: that takes its time."""
    with patch("analyzer.report.data.build_explore", return_value=None):
        return build_report(*(fleet(3) if several else l1_incident()))


def page(told: Told | None, inputs: Sequence[str] = ("incident.kvtrace",), *, several: bool = False) -> str:
    data = without(several=several)
    window = data.instances.rows[0].verdict.window
    return render_html(data if told is None else replace(data, replay=build_replay(told, window=window, inputs=inputs, several=several)))


def section(html: str) -> str:
    return html[html.index('<section id="replay"') : html.index('<section id="i1-timeline"')]


def text(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def rows(html: str) -> list[tuple[str, str]]:
    """Class and text of each row of the what-if table."""
    table = re.search(r'<table class="sortable what-ifs">.*?</table>', html, re.DOTALL)
    assert table
    return [(css or "", text(row)) for css, row in re.findall(r'<tr(?: class="(\w+)")?>(.*?)</tr>', table.group(), re.DOTALL)][1:]


ALL: list[Told] = [
    study("good", goals=(goal(),)),
    study("fair"),
    study("low"),
    study("none"),
    vllm_study(),
    study(start=None),
    study(what_ifs=()),
    NoReplay("pod-a", "no request was recorded", "record the client's requests"),
    LeftOut("pod-a", 0, 0),
    LeftOut("pod-a", 100_000, 20_000_000),
    Failed("pod-a", "KeyError: 'r1'"),
]


@pytest.mark.parametrize("told", ALL)
def test_the_page_with_it_nests_and_its_links_lead_somewhere(told: Told) -> None:
    parsed = Page(page(told))
    assert parsed.faults == []
    assert parsed.open == []
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert {h for h in parsed.values("href") if h not in ("#mark-dot", "#mark-triangle", "#mark-cross")} <= {f"#{i}" for i in ids}
    for labels in parsed.values("aria-labelledby"):
        assert set(labels.split()) <= set(ids)
    assert all(attrs.get("scope") for tag, attrs in parsed.elements if tag == "th")


def test_it_stands_behind_the_checklist_of_the_worst_instance_only() -> None:
    html = page(study(), several=True)
    assert html.index('id="i1-checklist"') < html.index('<section id="replay"') < html.index('id="i1-timeline"') < html.index('id="i2"')
    assert html.count("What would have helped</h3>") == 1


def test_a_report_is_given_the_replay() -> None:
    with patch("analyzer.report.data.build_explore", return_value=None):
        data = build_report(*fleet(3), replay=replace(study(), case=replace(study().case, instance="10.0.3.2:30000")), inputs=("logs",))
    assert data.replay is not None
    assert data.replay.commands[0] == "kvpm replay logs --server 10.0.3.2:30000"
    assert data.replay.study is not None
    assert data.replay.study.chart is not None
    assert data.replay.study.chart.axis.shade is not None


def test_the_first_screen_says_it_in_one_sentence_with_the_trust() -> None:
    html = page(study())
    first = html[html.index('<section id="verdict"') : html.index('<section id="why"')]
    assert '<a href="#replay">Replayed</a>: ' in first
    said = text(first)
    assert "38.9 s" in said
    assert "25 % more L1" in said
    assert "3.1 s" in said
    assert "Trust: good" in said


@pytest.mark.parametrize("told", [None, *ALL[-4:]])
def test_the_first_screen_says_nothing_of_a_replay_that_is_none(told: Told | None) -> None:
    html = page(told)
    assert "Replayed</a>" not in html
    assert ('href="#replay"' in html) == (told is not None)


def test_without_a_replay_the_page_is_as_before() -> None:
    assert '<section id="replay"' not in page(None)


@pytest.mark.parametrize(("trust", "word"), [("good", "good"), ("fair", "fair")])
def test_a_trusted_replay_greys_only_what_says_why(trust: str, word: str) -> None:
    found = rows(page(study("good" if trust == "good" else "fair")))
    assert found[0][0] == "unchanged"
    assert [css for css, _ in found].count("doubtful") == 2
    for css, said in found:
        assert (css == "doubtful") == ("Not trusted" in said)
    assert "Not trusted : more requests at once than were ever seen running" in " | ".join(said for _, said in found)
    assert f"Trust: {word}" in text(section(page(study("good" if trust == "good" else "fair"))))


@pytest.mark.parametrize(("trust", "first"), [("low", "The replay is not to be relied on"), ("none", "There is nothing that the replay")])
def test_without_trust_all_is_grey_and_that_is_said_first(trust: str, first: str) -> None:
    html = page(study("low" if trust == "low" else "none"))
    said = text(section(html))
    assert said.startswith(f"What would have helped {first}")
    assert "more L1" not in said.split("What if")[0]
    assert {css for css, _ in rows(html)} == {"doubtful"}
    assert all("Not trusted" in line for _, line in rows(html))
    assert said.count("the unchanged replay does not fit") == 1
    assert 'class="rung"' not in section(html).replace('class="rung"', "", 1)  # but for the legend
    assert "line s-doubtful" in section(html)


def test_rows_come_by_what_they_bring() -> None:
    found = [said.split(" --set")[0] for _, said in rows(page(study()))]
    assert found[0].startswith("Unchanged, replayed")
    trusted = [w for w in WHAT_IFS if w.trusted]
    best = sorted(trusted, key=lambda w: w.outcome.ttft_p99_s or 0.0)
    assert [f"--set {w.changes[0].text}" in said for w, (_, said) in zip(best, rows(page(study()))[1:], strict=False)] == [True] * len(best)


def test_a_wait_without_end_is_a_word_and_sorts_last() -> None:
    html = page(study())
    never = next(said for _, said in rows(html) if "l1_tokens=x0.5" in said)
    assert "never" in never
    assert "3 requests can never be served" in never
    assert 'data-v="1e+18"' in section(html)
    assert "triangle: some requests never get a first token" in section(html)
    assert "inf" not in re.sub(r"<[^>]*>", "", section(html)).split()


def test_what_was_not_observed_is_not_told_as_fitting() -> None:
    html = section(page(study()))
    fit = html[html.index('<table class="fit">') : html.index("</table>", html.index('<table class="fit">'))]
    cells = [text(row) for row in re.findall(r"<tr>(.*?)</tr>", fit, re.DOTALL)]
    assert "Requests running, mean not reported 25.7 requests – – cannot tell up to 15 %" in cells
    assert any(c.startswith("TTFT P50 6 s 9 s 50 % +50 % no") for c in cells)
    assert any(c.startswith("TTFT P99 40.2 s 38.9 s 3.2 % -3.2 % yes") for c in cells)


def test_retractions_are_preemptions_of_vllm() -> None:
    assert "Preemptions" in section(page(vllm_study()))
    assert "Retractions" not in section(page(vllm_study()))


def test_the_commands_can_be_copied_into_a_shell() -> None:
    html = page(study(), inputs=("my logs/server.log", "$(reboot)"))
    commands = [unescape(c) for c in re.findall(r'<pre class="command" tabindex="0"><code>(.*?)</code>', html)]
    assert commands[0] == "kvpm replay 'my logs/server.log' '$(reboot)'"
    assert commands[1].endswith("--goal 'ttft_p99<2s' --by l1_tokens")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (ALL[-4], "It cannot be replayed: no request was recorded. To be able to next time: record the client's requests"),
        (ALL[-3], "Nothing was replayed: a capture of this length takes longer than a report should. kvpm report --replay"),
        (ALL[-2], "Nothing was replayed: 100,000 requests with 20,000,000 tokens take longer than a report should."),
        (ALL[-1], "The replay failed: KeyError: 'r1'"),
    ],
)
def test_no_replay_says_why_and_what_to_do(told: Told, expected: str) -> None:
    said = text(section(page(told)))
    assert expected in said
    assert ("kvpm replay incident.kvtrace" in said) == (not isinstance(told, NoReplay))
    assert "<table" not in section(page(told))


def hostile_study() -> Study:
    plain = study("fair", goals=(replace(goal(), goal=HOSTILE, said=HOSTILE),), skipped=(HOSTILE,))
    case = replace(
        plain.case,
        instance=HOSTILE,
        engine_version=HOSTILE,
        setting_rows=(SettingRow(HOSTILE, HOSTILE, "read", HOSTILE),),
        workload=replace(plain.case.workload, notes=(HOSTILE,)),
        fitted=replace(plain.case.fitted, basis=HOSTILE),
        observed=replace(plain.case.observed, waiting=replace(plain.case.observed.waiting, source=HOSTILE)),
    )
    calibration = replace(plain.calibration, reasons=(HOSTILE,))
    return replace(plain, case=case, calibration=calibration, what_ifs=(what_if("l1_tokens", 2.0, 1.0, why_not=HOSTILE),))


@pytest.mark.parametrize(
    "told",
    [hostile_study(), NoReplay(HOSTILE, HOSTILE, HOSTILE), Failed(HOSTILE, HOSTILE), LeftOut(HOSTILE, 1, 1)],
    ids=lambda t: type(t).__name__,
)
def test_hostile_names_stay_text(told: Told) -> None:
    html = page(told, (HOSTILE,), several=True)
    assert "<img" not in html
    assert html.count("</script>") == html.count("<script")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202a-\u202e]", html)
    assert Page(html).faults == []
    if isinstance(told, NoReplay | Failed | Study):
        assert "&lt;img src=x onerror=1&gt;" in section(html)


def test_the_same_replay_gives_the_same_bytes() -> None:
    assert page(study()) == page(study())


def test_the_section_is_small() -> None:
    told = study(goals=(goal(),) * 40)
    wide = tuple(replace(w, why_not=w.why_not * 30) for w in told.what_ifs) * 30
    case = replace(told.case, setting_rows=told.case.setting_rows * 100, observed=observed(0.05))
    many = replace(told, case=case, what_ifs=wide, skipped=("x" * 2000,) * 500)
    assert len(page(many).encode()) - len(page(None).encode()) < 150_000


def test_what_is_capped_is_counted() -> None:
    html = section(page(study(what_ifs=WHAT_IFS * 30, skipped=tuple(f"thing {i}" for i in range(40)))))
    assert "Showing 48 of 361 replays." in text(html)
    assert "Showing 16 of 40 items." in text(html)


def test_a_band_without_an_end_is_said() -> None:
    row = replace(what_if("l1_tokens", 2.0, 5.0), high_s=math.inf)
    assert "over 4 s" in rows(page(study(what_ifs=(row,))))[1][1]


@pytest.mark.parametrize("told", [study(goals=(), skipped=(), what_ifs=WHAT_IFS[1:4]), *ALL[-4:]])
def test_the_section_speaks_chinese(told: Told) -> None:
    with use("zh"):
        found = text_of(section(page(told)))
    assert CHINESE.search(found) or not isinstance(told, Study)
    assert [t for t in set(english()) if t in found] == []


def test_the_unchanged_row_says_what_was_observed_and_a_row_that_is_the_same_that_it_changes_nothing() -> None:
    plain = study()
    same = replace(WHAT_IFS[8], outcome=plain.unchanged)
    found = dict(zip(("unchanged", "l2", "l1"), rows(page(replace(plain, what_ifs=(same, what_if("l1_tokens", 2.0, 39.9))))), strict=True))
    assert found["unchanged"][1].endswith("40.2\u00a0s was observed".replace("\u00a0", " "))
    # the same error as of all others
    assert "26.5 s to 1 min 23 s" in found["unchanged"][1]
    assert [("changes nothing" in said) for _css, said in found.values()] == [False, True, False]


def test_nothing_is_said_to_change_nothing_where_no_wait_is_known() -> None:
    plain = study()
    silent = replace(plain.unchanged, ttft_p50_s=None, ttft_p99_s=None)
    assert "changes nothing" not in page(replace(plain, unchanged=silent, what_ifs=(replace(WHAT_IFS[8], outcome=silent),)))


def test_what_the_numbers_are_of_is_said_as_in_the_terminal() -> None:
    found = text(section(page(study())))
    assert "An error is a share of what was recorded" in found
    assert "A step takes 10 ms + 10 µs per new token" in found.replace("\xa0", " ")
    assert "Fitted to decode steps of the log. Half of 412 intervals lie within 8 % of it." in found.replace("\xa0", " ")


def test_requests_that_nothing_serves_are_named_with_the_setting() -> None:
    small = what_if("l1_tokens", 0.5, None, never=3, open=7)
    assert "3 requests can never be served" in text(section(page(study(what_ifs=(small,)))))

"""The format data: every sample is read as it says, and what could not be trusted is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzer.formats.load import FormatDataError, Registry, claimants, load, registry
from analyzer.formats.match import attempts, is_foreign, key_reports, match_line
from analyzer.formats.prefix import split_head
from analyzer.sources.wrappers import unwrap

FORMAT_SAMPLES = [(f, s) for f in registry().formats for s in f.samples]
PREFIX_SAMPLES = [(p, s) for p in registry().prefixes for s in p.samples]


@pytest.mark.parametrize(("fmt", "sample"), FORMAT_SAMPLES, ids=[f"{f.id}-{s.versions}" for f, s in FORMAT_SAMPLES])
def test_a_format_sample_holds_what_it_says(fmt, sample) -> None:
    match = match_line(unwrap(sample.line).text)
    assert match.parsed is not None
    assert match.parsed.format.id == fmt.id
    got = match.parsed.values | {f"extra.{k}": v for k, v in match.parsed.extra.items()}
    assert {k: got.get(k) for k in sample.expect} == {
        k: pytest.approx(v) if isinstance(v, float) and not isinstance(v, bool) else v for k, v in sample.expect.items()
    }
    if fmt.pairs:
        assert set(got) == set(sample.expect), "a pair line's sample names every field"
    message = match.message if fmt.pairs else match.message.rstrip()
    assert [f.id for f in claimants(registry(), match.head.engine, message)] == [fmt.id]


@pytest.mark.parametrize(("fmt", "sample"), FORMAT_SAMPLES, ids=[f"{f.id}-{s.versions}" for f, s in FORMAT_SAMPLES])
def test_no_sample_is_taken_for_foreign(fmt, sample) -> None:
    if fmt.literal and not sample.line.startswith("{"):
        assert not is_foreign(sample.line)


@pytest.mark.parametrize(("prefix", "sample"), PREFIX_SAMPLES, ids=[f"{p.id}-{s.versions}" for p, s in PREFIX_SAMPLES])
def test_a_prefix_sample_holds_what_it_says(prefix, sample) -> None:
    head, _ = split_head(sample.line)
    assert head.prefixes[0] == prefix.id
    if prefix.engine:
        assert head.engine == prefix.engine
    got = {
        "stamp": head.stamp,
        "tags": " " + head.tags,
        "proc": head.proc,
        "pid": str(head.pid),
        "level": head.level,
        "file": head.file,
        "file_old": head.file,
    }
    assert {k: got[k] for k in sample.expect} == sample.expect


GOOD = {
    "id": '"x.y"',
    "engine": '"x"',
    "table": '"scheduler"',
    "literal": '"Hello "',
    "head": "'''Hello (?P<running>\\d+)'''",
}
SAMPLE = '[[format.sample]]\nversions = "1"\nline = "Hello 3"\n'


def refused(folder: Path, sample: str = SAMPLE, before: str = "", **changes: str) -> str:
    entry = {k: v for k, v in {**GOOD, **changes}.items() if v}
    text = before + "[[format]]\n" + "".join(f"{k} = {v}\n" for k, v in entry.items()) + sample
    (folder / "x.toml").write_text(text, encoding="utf-8")
    with pytest.raises(FormatDataError) as error:
        load(folder)
    assert "x.toml" in str(error.value)
    return str(error.value)


def test_a_good_entry_loads(tmp_path: Path) -> None:
    entry = "[[format]]\n" + "".join(f"{k} = {v}\n" for k, v in GOOD.items()) + SAMPLE
    (tmp_path / "x.toml").write_text(entry, encoding="utf-8")
    assert [f.id for f in load(tmp_path).formats] == ["x.y"]
    (tmp_path / "y.toml").write_text(entry, encoding="utf-8")
    with pytest.raises(FormatDataError, match=r"twice: x\.y"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sample": ""}, "without a sample"),
        ({"colour": '"red"'}, "unknown attribute colour"),
        ({"table": '"weather"'}, "no table 'weather'"),
        ({"role": '"king"'}, "no role 'king'"),
        ({"head": "'''Hello (?P<sunshine>\\d+)'''"}, "no column 'sunshine'"),
        ({"set": '{ sunshine = "much" }'}, "no column 'sunshine'"),
        ({"text": '"{sunshine} hours"'}, "no column 'sunshine'"),
        ({"fields": '{ waiting = "missing:int" }'}, "no group 'missing'"),
        ({"fields": '{ waiting = "running:roman" }'}, "no value reader 'roman'"),
        ({"pairs": '"nowhere"'}, "nowhere"),
        ({"head": "'''Hello ('''"}, "x.toml"),
        ({"literal": ""}, "literal"),
        ({"before": '[pairs.p.keys]\n"a" = ["running", "roman"]\n'}, "roman"),
        ({"before": '[pairs.p.keys]\n"a" = ["sunshine", "int"]\n', "pairs": '"p"'}, "sunshine"),
        ({"before": '[[prefix]]\nid = "p"\npattern = "x"\n'}, "without a sample"),
        (
            {"before": '[[prefix]]\nid = "p"\ninline = true\npattern = "x"\n[[prefix.sample]]\nversions = "1"\nline = "x"\n'},
            "needs a literal",
        ),
        ({"before": "this is no TOML\n"}, "x.toml"),
    ],
)
def test_data_that_cannot_be_trusted_is_refused(tmp_path: Path, changes: dict[str, str], told: str) -> None:
    assert told in refused(tmp_path, **changes)


def test_a_foreign_line_is_told_at_once() -> None:
    assert is_foreign('vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.968')
    assert not is_foreign("[2026-01-02 03:04:05 TP0] anything")


def test_how_far_each_format_got() -> None:
    best = attempts("sglang", "KV cache pool is full. Retract requests. #retracted_reqs: many")[0]
    assert best.format.id == "sglang.retract"
    assert best.problem.endswith("'many'")


def test_what_became_of_each_pair() -> None:
    match = match_line("[2026-01-02 03:04:05 TP0] Decode batch, #running-req: 24, #new-thing: 4, #cached-tounning-req: 4, #queue-req: x")
    assert match.parsed is not None
    assert [r.fate for r in key_reports(match.parsed, match.message)] == [
        "running",
        "unknown key, kept in extra",
        "damaged key, not stored",
        "damaged value, not stored",
    ]


def test_the_registry_tries_only_what_can_match() -> None:
    assert isinstance(registry(), Registry)
    assert [f.id for f in registry().candidates("sglang", "Decode batch, #running-req: 1")] == ["sglang.decode_batch"]
    assert not [f for f in registry().candidates(None, "hello world") if f.literal]

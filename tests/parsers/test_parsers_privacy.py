"""Prompts, outputs and secrets never reach the trace, and what a user wrote never becomes a record."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_reading import SGLANG_DECODE, VLLM_STATS, read

from analyzer.parsers.arguments import argument_facts

FAKE = "[2026-01-02 03:04:05 TP0] Decode batch, #running-req: 999, token usage: 0.99, #queue-req: 999"
FAKE_STATS = VLLM_STATS.replace("24 reqs", "999 reqs").replace("17 reqs", "999 reqs")
SECRET = "correct-horse-battery-staple"
S = "[2026-01-02 03:04:05] "
V = "(APIServer pid=77) INFO 01-02 03:04:05 [logger.py:47] "


def carriers(prompt: str) -> dict[str, str]:
    """Every line in which an engine prints what a user sent."""
    quoted = repr(prompt)
    js = json.dumps(prompt)
    return {
        "sglang receive": f"{S}Receive: obj=GenerateReqInput(rid='a', text={quoted}, stream=False)",
        "sglang receive openai": f"{S}Receive OpenAI: obj={{'messages': [{{'content': {quoted}}}]}}",
        "sglang finish": f"{S}Finish: obj=GenerateReqInput(rid='a', text={quoted}), out={{'text': {quoted}, 'meta_info': {{'id': 'a', "
        "'finish_reason': {'type': 'stop'}, 'prompt_tokens': 5}}",
        "sglang in": f"{S}in=GenerateReqInput(rid='a', text={quoted}), out={{'meta_info': {{'id': 'a', 'prompt_tokens': 5}}}}",
        "sglang json": f'{S}{{"timestamp": "2026-01-02T03:04:06.6", "event": "request.received", "rid": "a", "obj": {{"text": {js}}}}}',
        "sglang json finished": f'{S}{{"timestamp": "2026-01-02T03:04:06.6", "event": "request.finished", "rid": "a", '
        f'"obj": {{"text": {js}}}, "out": {{"text": {js}, "meta_info": {{"prompt_tokens": 5}}}}}}',
        "vllm received": f"{V}Received request cmpl-1: prompt: {quoted}, params: SamplingParams(n=1), prompt_token_ids: [1]",
        "vllm response": f"{V}Generated response cmpl-1: output: {quoted}, finish_reason: stop",
        "vllm failed": f"{V}Request cmpl-1 failed (bad request): {quoted}.",
        "vllm dump": f"{V}Dumping input data for V1 LLM engine (v0.11.2) with config: model='m', x={quoted}, ",
        "unknown engine line": f"{V}something new: text={quoted}",
        "unknown line": f"app: body={js}",
        "chat template": f"{S}server_args=ServerArgs(model_path='m', chat_template={quoted}, tp_size=1)",
        "exception": f"{S}Scheduler hit an exception: ValueError({quoted})",
    }


PROMPTS = {
    "plain": f"tell {SECRET} please",
    "a record": f"hi {FAKE} bye {SECRET}",
    "a record at the start": FAKE + SECRET,
    "another engine's": f"hi {FAKE_STATS} bye {SECRET}",
    "quotes": f"it's \"{SECRET}\" {FAKE} isn't it, 'a': \"b",
    "newlines": f"a\n{FAKE}\r\n{SECRET}",
    "closing": f"'), out={{'meta_info': {{'prompt_tokens': 7}}}} {FAKE} {SECRET}",
    "an event": f'{{"event": "request.finished", "rid": "{SECRET}"}} {FAKE}',
}


@pytest.mark.parametrize("around", ["{}", "2026-01-02T03:04:05Z {}", "[pod/a/b] 2026-01-02T03:04:05Z {}", "json", "bar"])
@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("carrier", carriers(""))
def test_what_a_user_wrote_stays_out(carrier: str, prompt: str, around: str) -> None:
    line = carriers(PROMPTS[prompt])[carrier]
    if around == "json":
        line = json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-01-02T03:04:05Z"})
    elif around == "bar":
        line = f"Loading: 50%|##  |\r{line}"
    else:
        line = around.format(line)
    got = read("\n".join([SGLANG_DECODE, VLLM_STATS, line, SGLANG_DECODE]) + "\n")
    assert [r["running"] for r in got.rows["scheduler"]] == [24, 24, 24]
    assert SECRET not in repr(got.rows)
    assert SECRET not in repr(got.log)


@pytest.mark.parametrize("carrier", [c for c in carriers("") if c.startswith(("sglang", "vllm r"))])
def test_nor_does_it_when_the_line_is_cut_or_wrapped(carrier: str) -> None:
    prompt = f"once upon a time {FAKE} and {FAKE_STATS} {SECRET} the end"
    line = carriers(prompt)[carrier]
    for end in range(60, len(line), 7):
        got = read(f"{SGLANG_DECODE}\n{line[:end]}")
        assert [r["running"] for r in got.rows["scheduler"]] == [24], end
    for width in range(60, 140, 7):
        pieces = [one[at : at + width] for one in (SGLANG_DECODE, line, SGLANG_DECODE) for at in range(0, len(one), width)]
        got = read("\n".join(pieces) + "\n")
        assert [r["running"] for r in got.rows["scheduler"]] == [24, 24], width
        assert SECRET not in repr(got.rows)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.sampled_from(sorted(carriers(""))))
def test_no_prompt_gives_a_scheduler_row(prompt: str, carrier: str) -> None:
    line = carriers(f"{prompt}{FAKE}{prompt}")[carrier].replace("\n", "\\n")
    got = read(f"{SGLANG_DECODE}\n{line}\n")
    assert [r["running"] for r in got.rows["scheduler"]] == [24]


SECRETS = {
    "api_key": SECRET, "admin_api_key": SECRET, "api_key_": [SECRET], "hf_token": SECRET, "ssl_keyfile_password": SECRET,
    "password": SECRET, "ssl_keyfile": f"/x/{SECRET}", "served_model_name": "m", "model_path": f"https://u:{SECRET}@host/m?token={SECRET}",
    "key": 12345,     "authorization": 1, "chat_template": SECRET, "extra": {"api_key": SECRET},
    "kv_transfer_config": {"kv_connector": "X", "api_key": SECRET},
    "env": [f"KEY={SECRET}"], "credentials": {"a": SECRET}, "x y": SECRET,
}  # fmt: skip


def test_secrets_in_arguments() -> None:
    facts = {name: value for name, value, _ in argument_facts(SECRETS)}
    assert SECRET not in repr(facts)
    assert facts == {"served_model_name": "m", "model_path": "https://host/m", "kv_transfer_config.kv_connector": "X"}


@pytest.mark.parametrize("head", [f"{S}server_args=ServerArgs({{}})", f"{V}non-default args: {{{{{{}}}}}}", f"{V}args: Namespace({{}})"])
def test_secrets_in_argument_lines(head: str) -> None:
    dictionary = "{{" in head
    body = ", ".join(f"'{k}': {v!r}" if dictionary else f"{k}={v!r}" for k, v in SECRETS.items() if " " not in k)
    for end in range(0, len(body), 11):
        got = read(head.replace("{{{}}}", "{" + body[:end] + "}").replace("{}", body[:end]) + "\n" + VLLM_STATS + "\n")
        assert SECRET not in repr(got.rows)
        assert SECRET not in repr(got.log)

"""Pools and concurrency: the worked figures, splitting over GPUs, windows, states, and what a server reported."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.capacity.config import Config
from analyzer.capacity.layers import Model, model_of
from analyzer.capacity.plan import Capacity, Gpus, capacity
from analyzer.capacity.quantities import bytes_of, lengths_of, tokens_of
from analyzer.errors import KvpmError

GIB = 2**30


def model(**fields: Any) -> Model:
    return model_of(Config({"torch_dtype": "bfloat16", **fields}))


def llama(layers: int = 80, heads: int = 8, **fields: Any) -> Model:
    return model(
        model_type="llama", num_hidden_layers=layers, num_attention_heads=64, num_key_value_heads=heads, head_dim=128, **fields
    )  # fmt: skip


def deepseek_v3() -> Model:
    return model(model_type="deepseek_v3", num_hidden_layers=61, num_attention_heads=128, kv_lora_rank=512, qk_rope_head_dim=64)


def counts(told: Capacity) -> list[int | None]:
    return [fit.fewest for fit in told.fits]


def test_llama_3_70b_on_one_gpu() -> None:
    told = capacity(llama(), Gpus(hbm_bytes=60 * GIB))
    assert (told.token_bytes, told.gpu_token_bytes) == (320 * 1024, 320 * 1024)
    assert told.pool_tokens == 196_608


def test_llama_3_70b_on_eight() -> None:
    told = capacity(llama(), Gpus(tp=8, hbm_bytes=60 * GIB), lengths_of("32k,128k"))
    assert told.gpu_token_bytes == 40 * 1024
    assert told.pool_tokens == 1_572_864
    assert counts(told) == [48, 12]


def test_deepseek_v3_is_whole_on_every_gpu() -> None:
    one, eight = (capacity(deepseek_v3(), Gpus(tp=tp, hbm_bytes=60 * GIB), lengths_of("128k")) for tp in (1, 8))
    assert float(one.token_bytes) / 1024 == pytest.approx(68.6, abs=0.05)
    assert float(one.fits[0].most_bytes) / 1e9 == pytest.approx(9.2, abs=0.05)
    assert (one.pool_tokens, counts(one)) == (eight.pool_tokens, counts(eight))


@pytest.mark.parametrize(("tp", "kib"), [(1, 320), (2, 160), (4, 80), (8, 40), (16, 40), (32, 40)])
def test_heads_split_until_each_gpu_has_one(tp: int, kib: int) -> None:
    assert capacity(llama(), Gpus(tp=tp)).gpu_token_bytes == kib * 1024


@pytest.mark.parametrize("tp", [3, 6, 12])
def test_heads_that_do_not_split_are_refused(tp: int) -> None:
    with pytest.raises(KvpmError, match=f"8 KV heads do not split evenly over {tp} GPUs") as told:
        capacity(llama(), Gpus(tp=tp))
    assert "--tp 1, 2, 4, 8, or a multiple of 8" in told.value.hint


def test_copies_hold_whole_requests_each() -> None:
    one, three = (capacity(llama(), Gpus(dp=dp, hbm_bytes=15 * GIB), [32768]) for dp in (1, 3))
    assert (counts(one), counts(three)) == ([1], [3])
    assert three.pool_tokens == 3 * 49_152
    assert three.gpus.total == 3


def test_the_fullest_stage_counts() -> None:
    even, uneven = capacity(llama(), Gpus(pp=4)), capacity(llama(), Gpus(pp=3))
    assert even.gpu_token_bytes == 80 * 1024
    assert uneven.gpu_token_bytes == 27 * 4 * 1024
    assert not even.assumed
    assert any("do not divide evenly" in said for said in uneven.assumed)
    with pytest.raises(KvpmError, match="80 layers cannot be shared out over 81 stages"):
        capacity(llama(), Gpus(pp=81))


def test_a_window_bounds_what_a_long_request_keeps() -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    told = capacity(llama(4, layer_types=kinds, sliding_window=1024), Gpus(hbm_bytes=GIB), [512, 1024, 8192])
    token = 2 * 8 * 128 * 2
    assert [fit.most_bytes for fit in told.fits] == [4 * token * n for n in (512, 1024, 8192)]
    assert [fit.least_bytes for fit in told.fits] == [4 * token * 512, 4 * token * 1024, 2 * token * (8192 + 1024)]
    short, edge, long = told.fits
    assert (short.fewest, edge.fewest) == (short.most, edge.most)
    assert long.fewest == 8
    assert long.most == GIB // (2 * token * 9216)
    assert told.has_windows


def test_a_state_is_paid_once_per_request() -> None:
    hybrid = model(
        model_type="qwen3_next", num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=2, head_dim=256,
        full_attention_interval=4, linear_num_key_heads=16, linear_num_value_heads=32,
        linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4,
        mamba_ssm_dtype="float32",
    )  # fmt: skip
    state = 6 * (3 * 8192 * 2 + 32 * 128 * 128 * 4)
    whole, split = capacity(hybrid, Gpus(), [1, 1000]), capacity(hybrid, Gpus(tp=4), [1])
    assert whole.state_bytes == state
    assert [fit.most_bytes - state for fit in whole.fits] == [2 * 2 * 2 * 256 * 2 * n for n in (1, 1000)]
    assert split.state_bytes == Fraction(state, 4)


def test_without_tokens_there_is_no_pool_of_them() -> None:
    mamba = model(model_type="mamba", num_hidden_layers=4, hidden_size=64, state_size=16, conv_kernel=4)
    told = capacity(mamba, Gpus(hbm_bytes=GIB), [1, 10**6])
    assert (told.token_bytes, told.pool_tokens) == (0, None)
    assert counts(told)[0] == counts(told)[1] == GIB // told.state_bytes


def test_without_memory_nothing_is_counted() -> None:
    told = capacity(llama(), Gpus(), [1000])
    assert (told.pool_tokens, counts(told)) == (None, [None])
    assert told.fits[0].most_bytes == 1000 * 320 * 1024


def test_what_a_server_reported_is_held_against_it() -> None:
    told = capacity(llama(), Gpus(tp=8, dp=2, hbm_bytes=60 * GIB), [32768], [("pod-a", 786_432, "server.log:3")])
    (reported,) = told.reported
    assert (reported.bytes_per_gpu, reported.share, reported.requests) == (30 * GIB, 0.5, (48,))


def test_positions_are_not_silently_passed() -> None:
    told = capacity(llama(max_position_embeddings=8192), Gpus(), [8192, 8193])
    assert any("8,192 positions" in said for said in told.assumed)
    assert not capacity(llama(max_position_embeddings=8192), Gpus(), [8192]).assumed


def test_json_is_plain() -> None:
    told = capacity(deepseek_v3(), Gpus(tp=2, hbm_bytes=GIB), [100], [("pod-a", 1000, "")]).to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["kv_bytes_per_token"] == 70272
    assert told["lengths"][0]["requests"] == {"least": 152, "most": 152}


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 4), st.integers(1, 100_000), st.integers(1, 2**40))
def test_what_fits_fits_and_one_more_does_not(layers: int, split: int, tokens: int, hbm: int) -> None:
    told = capacity(llama(layers), Gpus(tp=2**split, hbm_bytes=hbm), [tokens])
    fit = told.fits[0]
    assert fit.fewest is not None
    assert fit.fewest * fit.most_bytes <= hbm < (fit.fewest + 1) * fit.most_bytes
    assert told.pool_tokens is not None
    assert told.pool_tokens // tokens == fit.fewest


@pytest.mark.parametrize(
    ("text", "size"),
    [("60GiB", 60 * GIB), ("60gb", 60 * 10**9), (" 1.5 GiB ", 3 * 2**29), ("512MiB", 2**29), ("1TB", 10**12)],
)
def test_sizes(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "60", "60 G", "GiB", "-1GiB", "0GiB", "nanGiB", "1e3GiB", "2000TiB", "9" * 40 + "GiB", "６GiB"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(KvpmError) as told:
        bytes_of(text)
    assert "60GiB" in told.value.hint


@pytest.mark.parametrize(("text", "tokens"), [("32k", 32768), ("128K", 131072), ("8000", 8000), ("1M", 1048576), ("0.5k", 512)])
def test_lengths(text: str, tokens: int) -> None:
    assert tokens_of(text) == tokens


@pytest.mark.parametrize("text", ["", "0", "-5", "k", "32kb", "0.3", "1.5", "99999999M", "1e5"])
def test_lengths_that_are_none(text: str) -> None:
    with pytest.raises(KvpmError):
        tokens_of(text)


def test_lengths_come_once_and_in_order() -> None:
    assert lengths_of("128k, 32k,131072") == (131072, 32768)
    with pytest.raises(KvpmError, match="51 lengths"):
        lengths_of(",".join(str(n) for n in range(1, 52)))

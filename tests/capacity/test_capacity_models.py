"""KV bytes per token of public models, from the fields of their configurations that matter."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from analyzer.capacity.config import Config
from analyzer.capacity.elements import kv_element
from analyzer.capacity.layers import Model, model_of
from analyzer.capacity.plan import Gpus, capacity
from analyzer.errors import NothingUsableError

BF16 = {"torch_dtype": "bfloat16"}


def model(kv_dtype: str = "auto", **fields: Any) -> Model:
    return model_of(Config({**BF16, **fields}), kv_dtype)


def per_token(told: Model) -> Fraction:
    return capacity(told, Gpus()).token_bytes


def windows(told: Model) -> dict[int | None, int]:
    """How many layers that keep tokens have which window."""
    return dict(Counter(layer.window for layer in told.layers if layer.elements))


def llama(**fields: Any) -> dict[str, Any]:
    return {
        "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096, **fields,
    }  # fmt: skip


LLAMA_70B = llama(num_hidden_layers=80, num_attention_heads=64, hidden_size=8192)
MLA = {"num_attention_heads": 128, "num_key_value_heads": 128, "hidden_size": 7168, "kv_lora_rank": 512, "qk_rope_head_dim": 64}


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("Llama-3-8B", llama(), 2 * 32 * 8 * 128 * 2),
        ("Llama-3-70B", LLAMA_70B, 320 * 1024),
        ("Llama-2-7B: no KV heads named", llama(num_key_value_heads=None), 2 * 32 * 32 * 128 * 2),
        ("Qwen2.5-7B", {"model_type": "qwen2", "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "hidden_size": 3584,
                        "use_sliding_window": False, "sliding_window": 131072, "max_window_layers": 28}, 2 * 28 * 4 * 128 * 2),
        ("Qwen3-235B: head_dim is not hidden_size / heads", {"model_type": "qwen3_moe", "num_hidden_layers": 94, "num_attention_heads": 64,
                        "num_key_value_heads": 4, "hidden_size": 4096, "head_dim": 128}, 2 * 94 * 4 * 128 * 2),
        ("GPT-2", {"model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768}, 2 * 12 * 12 * 64 * 2),
        ("BLOOM-7B", {"model_type": "bloom", "n_layer": 30, "n_head": 32, "hidden_size": 4096, "n_embed": 4096}, 2 * 30 * 32 * 128 * 2),
        ("Falcon-7B: multi-query", {"model_type": "falcon", "num_hidden_layers": 32, "num_attention_heads": 71, "num_kv_heads": 71,
                        "hidden_size": 4544, "multi_query": True, "new_decoder_architecture": False}, 2 * 32 * 1 * 64 * 2),
        ("Falcon-40B: the new architecture", {"model_type": "falcon", "num_hidden_layers": 60,
            "num_attention_heads": 128, "num_kv_heads": 8,
                        "hidden_size": 8192, "multi_query": True, "new_decoder_architecture": True}, 2 * 60 * 8 * 64 * 2),
        ("StarCoder", {"model_type": "gpt_bigcode", "n_layer": 40, "n_head": 48, "n_embd": 6144,
            "multi_query": True}, 2 * 40 * 1 * 128 * 2),
        ("MPT-7B", {"model_type": "mpt", "n_layers": 32, "n_heads": 32, "d_model": 4096,
            "attn_config": {"attn_type": "multihead_attention"}},
         2 * 32 * 32 * 128 * 2),
        ("MPT with one KV head", {"model_type": "mpt", "n_layers": 32, "n_heads": 32, "d_model": 4096,
                        "attn_config": {"attn_type": "multiquery_attention"}}, 2 * 32 * 1 * 128 * 2),
        ("DBRX", {"model_type": "dbrx", "n_layers": 40, "n_heads": 48, "d_model": 6144,
            "attn_config": {"kv_n_heads": 8}}, 2 * 40 * 8 * 128 * 2),
        ("ChatGLM3", {"model_type": "chatglm", "num_layers": 28, "num_attention_heads": 32, "hidden_size": 4096, "kv_channels": 128,
                        "multi_query_attention": True, "multi_query_group_num": 2}, 2 * 28 * 2 * 128 * 2),
        ("Phi-2", {"model_type": "phi", "num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 2560}, 2 * 32 * 32 * 80 * 2),
        ("DeepSeek-V3", {"model_type": "deepseek_v3", "num_hidden_layers": 61, **MLA}, 576 * 61 * 2),
        ("DeepSeek-V2-Lite", {"model_type": "deepseek_v2", "num_hidden_layers": 27, **MLA, "num_attention_heads": 16}, 576 * 27 * 2),
        ("DeepSeek-V3.2: an index beside the latent", {"model_type": "deepseek_v32", "num_hidden_layers": 61, **MLA, "index_head_dim": 128},
         61 * (576 * 2 + 132)),
        ("keys and values of different width", llama(head_dim=192, v_head_dim=128), 32 * 8 * (192 + 128) * 2),
        ("KV heads by layer", {"model_type": "openelm", "num_hidden_layers": 3, "num_attention_heads": 8, "hidden_size": 512,
                        "num_kv_heads": [1, 2, 4]}, 2 * (1 + 2 + 4) * 64 * 2),
        ("Nemotron-NAS: blocks one by one", llama(num_hidden_layers=3, num_key_value_heads=None, block_configs=[
            {"attention": {"n_heads_in_group": 8}}, {"attention": {"no_op": True, "n_heads_in_group": None}},
            {"attention": {"n_heads_in_group": 16}}]), 2 * (4 + 2) * 128 * 2),
        ("fields of one layer", llama(num_hidden_layers=3, per_layer_config={"01": {"head_dim": 256}}), 2 * 8 * (128 + 256 + 128) * 2),
        ("layers in pairs share keys and values", llama(use_cla=True, cla_share_factor=2), 2 * 16 * 8 * 128 * 2),
    ],
)  # fmt: skip
def test_bytes_per_token(name: str, fields: dict[str, Any], expected: int) -> None:
    assert per_token(model(**fields)) == expected, name


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("Mistral-7B-v0.1", {"model_type": "mistral", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                             "hidden_size": 4096, "sliding_window": 4096}, {4096: 32}),
        ("Mistral-7B-v0.3", {"model_type": "mistral", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                             "hidden_size": 4096, "sliding_window": None}, {None: 32}),

                   ("Qwen2 with windows from a layer on", llama(use_sliding_window=True, sliding_window=4096, max_window_layers=28),
         {None: 28, 4096: 4}),
        ("Gemma-2-27B", {"model_type": "gemma2", "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16,
                         "hidden_size": 4608, "head_dim": 128, "sliding_window": 4096}, {4096: 23, None: 23}),
        ("gpt-oss-120b", {"model_type": "gpt_oss", "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
                          "hidden_size": 2880, "head_dim": 64, "sliding_window": 128,
                          "layer_types": ["sliding_attention", "full_attention"] * 18}, {128: 18, None: 18}),
        ("Command-R7B by its pattern", llama(model_type="cohere2", sliding_window=4096, sliding_window_pattern=4), {4096: 24, None: 8}),
        ("EXAONE-4 by letters, the last layer global", llama(model_type="exaone4", num_hidden_layers=30, sliding_window=4096,
                                                             sliding_window_pattern="LLLG"), {4096: 22, None: 8}),
        ("switched off in spite of a list", llama(use_sliding_window=False, sliding_window=4096,
                                                  layer_types=["sliding_attention"] * 32), {None: 32}),
        ("Llama-4-Scout", {"model_type": "llama4", "text_config": {"model_type": "llama4_text", "num_hidden_layers": 48, "head_dim": 128,
                           "num_attention_heads": 40, "num_key_value_heads": 8, "hidden_size": 5120, "attention_chunk_size": 8192,
                           "no_rope_layers": [1, 1, 1, 0] * 12}}, {8192: 36, None: 12}),
        ("a window that no one places", llama(model_type="someone_else", sliding_window=4096), {None: 32}),
    ],
)  # fmt: skip
def test_windows(name: str, fields: dict[str, Any], expected: dict[int | None, int]) -> None:
    assert windows(model(**fields)) == expected, name


def test_what_a_nested_configuration_leaves_out_is_the_types_own_and_said() -> None:
    told = model(model_type="gemma3", text_config={"model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024})
    assert windows(told) == {1024: 29, None: 5}
    assert per_token(told) == 2 * 34 * 4 * 256 * 2
    assert any("num_key_value_heads is not in the configuration; 4 is the default of gemma3_text" in said for said in told.assumed)


def test_shared_layers_keep_nothing() -> None:
    told = model(model_type="gemma3n_text", num_hidden_layers=35, head_dim=256, num_kv_shared_layers=15, sliding_window=512)
    assert windows(told) == {512: 16, None: 4}


def test_mimo_windows_have_heads_of_their_own() -> None:
    told = model(
        model_type="mimo_v2_flash", num_hidden_layers=6, num_attention_heads=64, num_key_value_heads=4, hidden_size=4096, head_dim=192,
        v_head_dim=128, swa_num_key_value_heads=8, swa_head_dim=192, swa_v_head_dim=128, sliding_window=128,
        hybrid_layer_pattern=[0, 1, 1, 1, 1, 1],
    )  # fmt: skip
    assert [layer.heads for layer in told.layers] == [4, 8, 8, 8, 8, 8]
    assert per_token(told) == (4 + 5 * 8) * (192 + 128) * 2


JAMBA = {
    "model_type": "jamba", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096,
    "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
}  # fmt: skip
QWEN3_NEXT = {
    "model_type": "qwen3_next", "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2, "hidden_size": 2048,
    "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fields", "attend", "keep", "state"),
    [
        ("Jamba", JAMBA, 4, 28, 3 * 8192 * 2 + 8192 * 16 * 4),
        ("Qwen3-Next", QWEN3_NEXT, 12, 36, 3 * (2 * 16 * 128 + 32 * 128) * 2 + 32 * 128 * 128 * 4),
        ("Nemotron-H", {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-M-M*-", "num_attention_heads": 32, "hidden_size": 4096,
                        "num_key_value_heads": 8, "head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128,
                        "n_groups": 8, "conv_kernel": 4, "num_hidden_layers": 10}, 2, 4, 3 * (8192 + 2 * 8 * 128) * 2 + 8192 * 128 * 4),
        ("Bamba", llama(model_type="bamba", attn_layer_indices=[9, 18, 27], mamba_n_heads=128, mamba_d_head=64, mamba_d_state=128,
                        mamba_n_groups=1, mamba_d_conv=4), 3, 29, 3 * (8192 + 2 * 128) * 2 + 8192 * 128 * 4),
        ("Falcon-H1: both in each layer", llama(model_type="falcon_h1", num_key_value_heads=2, mamba_d_ssm=3072, mamba_n_heads=24,
                        mamba_d_head=128, mamba_d_state=256, mamba_n_groups=1, mamba_d_conv=4), 32, 32,
         3 * (3072 + 2 * 256) * 2 + 3072 * 256 * 4),
        ("Kimi-Linear", llama(model_type="kimi_linear", num_hidden_layers=4, kv_lora_rank=512, qk_rope_head_dim=64, linear_attn_config={
            "full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}), 1, 3,
         3 * 3 * 4096 * 2 + 32 * 128 * 128 * 4),
        ("LFM2: convolutions", llama(model_type="lfm2", num_hidden_layers=4, layer_types=["conv", "conv", "full_attention", "conv"],
                                     conv_L_cache=3), 1, 3, 2 * 4096 * 2),
        ("MiniMax-Text-01", llama(model_type="minimax_text_01", num_hidden_layers=8, num_attention_heads=64, head_dim=128,
                                  attn_type_list=[0] * 7 + [1]), 1, 7, 64 * 128 * 128 * 4),
        ("Mamba", {"model_type": "mamba", "num_hidden_layers": 64, "hidden_size": 2560, "state_size": 16, "conv_kernel": 4, "expand": 2},
         0, 64, 3 * 5120 * 2 + 5120 * 16 * 4),
    ],
)  # fmt: skip
def test_states(name: str, fields: dict[str, Any], attend: int, keep: int, state: int) -> None:
    told = model(**fields)
    states = [layer.state.size for layer in told.layers if layer.state is not None]
    assert (sum(layer.elements > 0 for layer in told.layers), len(states), set(states)) == (attend, keep, {state}), name


def test_a_state_that_does_not_follow_is_said_and_not_counted() -> None:
    told = model(**llama(model_type="unheard_of", num_hidden_layers=2, layer_types=["linear_attention", "full_attention"]))
    assert [layer.state for layer in told.layers] == [None, None]
    assert any("is not counted" in said for said in told.assumed)


@pytest.mark.parametrize(
    ("config", "asked", "name", "size"),
    [
        ({"torch_dtype": "bfloat16"}, "auto", "bfloat16", 2),
        ({"dtype": "float16"}, "auto", "float16", 2),
        ({"torch_dtype": "float32"}, "auto", "float16", 2),
        ({}, "auto", "bfloat16", 2),
        ({"torch_dtype": "bfloat16"}, "fp8_e5m2", "fp8", 1),
        ({"torch_dtype": "bfloat16"}, "int8", "int8", 1),
        ({"torch_dtype": "bfloat16"}, "nvfp4", "fp4", Fraction(9, 16)),
        ({"torch_dtype": "bfloat16", "quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}}, "auto", "fp8", 1),
        ({"torch_dtype": "bfloat16", "quantization_config": {"kv_cache_quant_algo": "FP8"}}, "auto", "fp8", 1),
        ({"torch_dtype": "bfloat16", "quantization_config": {"kv_cache_quant_algo": "FP8"}}, "bf16", "bfloat16", 2),
        ({"torch_dtype": "bfloat16", "quantization_config": {"bits": 4}}, "auto", "bfloat16", 2),
    ],
)
def test_elements(config: dict[str, Any], asked: str, name: str, size: Fraction) -> None:
    told = kv_element(Config(config), asked)
    assert (told.name, told.size) == (name, size)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"model_type": "llama", "num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"model_type": "new", "num_hidden_layers": 4}, "num_attention_heads is missing"),
        ({"model_type": "new", "num_hidden_layers": 4, "num_attention_heads": 4}, "hidden_size is missing"),
        ({"model_type": "new", "num_hidden_layers": 4, "num_attention_heads": 3, "hidden_size": 64}, "head_dim is missing"),
        ({"model_type": "new", "num_hidden_layers": 4, "kv_lora_rank": 512}, "qk_rope_head_dim is missing"),
        (llama(layer_types=["sliding_attention"] * 32), "sliding_window is missing"),
        (llama(layer_types=["full_attention"] * 31), "it has 32 layers, and its list of layers has 31"),
        (llama(layer_types=["quantum_attention"] * 32), "not known here, 'quantum_attention'"),
        (llama(model_type="granitemoehybrid"), "layer_types is missing"),
        (llama(model_type="deepseek_v4"), "compressed keys"),
        (llama(block_types=["recurrent"]), "block_types is a field that is not known here"),
        (llama(hybrid_override_pattern="M*Q"), "a letter that is not known here, 'Q'"),
        (llama(num_kv_shared_layers=32), "num_kv_shared_layers is 32 of 32 layers"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "bert"}, "an encoder keeps no KV cache"),
    ],
)
def test_what_does_not_follow_is_not_guessed(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(NothingUsableError, match="cannot tell the KV bytes per token") as told:
        model(**fields)
    assert why in told.value.message
    assert told.value.hint

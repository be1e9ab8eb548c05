"""Whatever stands in a configuration: bytes, or one line that says why not."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from analyzer.capacity.config import Config, model_types
from analyzer.capacity.layers import model_of
from analyzer.capacity.plan import Gpus, capacity
from analyzer.capacity.text import text
from analyzer.errors import KvpmError

FIELDS = (
    "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim", "v_head_dim", "kv_lora_rank",
    "qk_rope_head_dim", "index_head_dim", "sliding_window", "sliding_window_pattern", "use_sliding_window", "max_window_layers",
    "layer_types", "layers_block_type", "hybrid_override_pattern", "attn_layer_indices", "attn_layer_period", "attn_layer_offset",
    "attn_type_list", "hybrid_layer_pattern", "linear_attn_config", "full_attention_interval", "attention_chunk_size", "no_rope_layers",
    "block_configs", "per_layer_config", "num_kv_shared_layers", "use_cla", "cla_share_factor", "cross_attention_layers", "attn_config",
    "multi_query", "mamba_d_state", "mamba_d_conv", "mamba_n_heads", "mamba_d_head", "conv_L_cache", "linear_num_value_heads", "n_groups",
    "quantization_config", "torch_dtype", "max_position_embeddings", "num_nextn_predict_layers", "is_encoder_decoder", "text_config",
)  # fmt: skip
WORDS = st.sampled_from(["full_attention", "sliding_attention", "mamba", "hybrid", "LLG", "M*-", "auto", "bfloat16", "\n", ""])
SCALARS = st.none() | st.booleans() | st.integers(-1, 9) | st.integers() | st.floats() | WORDS
KEYS = st.sampled_from([*FIELDS, "full_attn_layers", "num_heads", "attention", "n_heads_in_group", "kv_n_heads", "0"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)
SENSIBLE = {"num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 64, "sliding_window": 8, "torch_dtype": "bfloat16"}


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6), st.sampled_from(["new", *model_types()]), st.booleans())
def test_any_configuration(fields: dict[str, Any], model_type: str, sensible: bool) -> None:
    config = {"model_type": model_type, **(SENSIBLE if sensible else {}), **fields}
    try:
        told = capacity(model_of(Config(config)), Gpus(hbm_bytes=2**30), [1, 1000])
    except KvpmError as error:
        said = error.message
    else:
        said = text(told, to_file=True)
        assert told.token_bytes >= 0
        assert all(0 <= fit.least_bytes <= fit.most_bytes for fit in told.fits)
        assert json.dumps(told.to_dict(), allow_nan=False)
    assert said.strip()

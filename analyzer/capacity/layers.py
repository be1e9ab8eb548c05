"""What each layer of a model keeps: per token, up to a window, and per request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from analyzer.capacity.config import Config, checked
from analyzer.capacity.elements import Element, kv_element
from analyzer.capacity.layout import Kind, kinds_of
from analyzer.capacity.states import State, state_of
from analyzer.language import _

# A quantized key of the sparse attention's index: a byte per element, and a scale of 4 bytes for every 128
_INDEX_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. A token costs `heads` x (`key` + `value`) elements, and `index_bytes` that are never split.

    `latent`: one compressed vector stands for all heads (`key` of it and `value` of rotary positions), whole on every GPU.
    `window`: tokens after which an older one can go; `chunked`: it goes with its whole chunk.
    """

    heads: int = 0
    key: int = 0
    value: int = 0
    latent: bool = False
    window: int | None = None
    chunked: bool = False
    index_bytes: int = 0
    state: State | None = None

    @property
    def elements(self) -> int:
        """Of one token, on all GPUs together."""
        return self.heads * (self.key + self.value)


@dataclass(frozen=True, slots=True)
class Model:
    """A model's layers in order; `element` is what keys and values are kept in, `positions` the longest sequence (None: not told)."""

    model_type: str
    layers: tuple[Layer, ...]
    element: Element
    positions: int | None
    assumed: tuple[str, ...]


def model_of(config: Config, kv_dtype: str = "auto") -> Model:
    """All layers of a configuration. NothingUsableError where they do not follow from it."""
    kinds = kinds_of(config)
    attend = any(kind not in ("state", "none") for kind in kinds)
    state = state_of(config) if any(kind in ("state", "hybrid") for kind in kinds) else None
    element = kv_element(config, kv_dtype)
    layers = []
    for i, kind in enumerate(kinds):
        layer = _attention(config.for_layer(i), kind, i) if kind not in ("state", "none") else Layer()
        layers.append(replace(layer, state=state) if kind in ("state", "hybrid") else layer)
    if config.count("num_nextn_predict_layers", "mtp_num_hidden_layers", least=0):
        config.assume(_("Layers for speculative decoding (MTP) are not counted; each that is used keeps as much as another layer"))
    positions = config.count("max_position_embeddings", "n_positions", "max_seq_len", "seq_length") if attend else None
    return Model(config.model_type, tuple(layers), element, positions, tuple(config.assumed))


def _attention(config: Config, kind: Kind, at: int) -> Layer:
    """A layer that attends."""
    window = {"window": ("sliding_window", "sliding_window_size"), "chunk": ("attention_chunk_size",)}.get(kind)
    tokens = config.need(*window) if window else None
    chunked = kind == "chunk"
    if config.count("kv_lora_rank") is not None and config.flag("use_mla") is not False:
        rank, rope = config.need("kv_lora_rank"), config.count("qk_rope_head_dim", least=0)
        if rope is None:
            raise config.cannot_tell("qk_rope_head_dim is missing")
        index = config.count("index_head_dim")
        _say_latent(config, rank + rope, index)
        return Layer(1, rank, rope, True, tokens, chunked, index + 4 * -(-index // _INDEX_BLOCK) if index else 0)
    heads = _kv_heads(config, kind, at)
    key, value = _head_dims(config, kind)
    return Layer(heads, key, value, False, tokens, chunked)


def _say_latent(config: Config, latent: int, index: int | None) -> None:
    config.assume(_("Stored is the latent of MLA, as engines do by default; decompressed keys and values take many times as much"))
    if index:
        config.assume(
            _("Sparse attention keeps an index beside the latent: {n} elements of one byte per token and layer, and their scales", n=index)
        )


def _kv_heads(config: Config, kind: Kind, at: int) -> int:
    """KV heads of one layer, by the names that model families give them."""
    block = _block(config, at)
    if block is not None:
        return block
    if config.flag("multi_query") and not config.flag("new_decoder_architecture"):
        return 1
    names: tuple[str, ...] = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "num_attention_groups")
    if config.flag("multi_query_attention"):
        names = ("multi_query_group_num", *names)
    if kind == "window":
        names = ("swa_num_key_value_heads", *names)
    elif config.flag("attention_k_eq_v"):
        names = ("num_global_key_value_heads", *names)
    for name in names:
        each = config.items(name)
        if each is not None:
            if at >= len(each):
                raise config.cannot_tell(f"{name} has {len(each)} entries for {config.layers()} layers")
            return checked(name, each[at])
    told = config.count(*names)
    if told is not None:
        return told
    inner = config.table("attn_config") or {}
    if inner.get("kv_n_heads") is not None:
        return checked("attn_config.kv_n_heads", inner["kv_n_heads"])
    if inner.get("attn_type") == "multiquery_attention":
        return 1
    heads = _heads(config)
    config.assume(_("The configuration names no KV heads: each of the {n} attention heads is taken to have its own", n=heads))
    return heads


def _block(config: Config, at: int) -> int | None:
    """KV heads of a layer whose blocks are described one by one: 0 where it does not attend; None where they are not."""
    blocks = config.items("block_configs")
    if blocks is None:
        return None
    attention = blocks[at].get("attention") if at < len(blocks) and isinstance(blocks[at], dict) else None
    if not isinstance(attention, dict):
        raise config.cannot_tell(f"block_configs says nothing of the attention of layer {at}")
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return 0
    heads, group = _heads(config), checked("n_heads_in_group", attention.get("n_heads_in_group"))
    if heads % group:
        raise config.cannot_tell(f"{heads} heads do not divide into groups of {group}")
    return heads // group


def _heads(config: Config) -> int:
    return config.need("num_attention_heads", "n_head", "n_heads", "num_heads")


def _head_dims(config: Config, kind: Kind) -> tuple[int, int]:
    """Elements of a key and of a value in one head."""
    names: tuple[str, ...] = ("head_dim", "attention_head_dim", "kv_channels", "hidden_size_per_head")
    values: tuple[str, ...] = ("v_head_dim",)
    if kind == "window":
        names, values = ("swa_head_dim", *names), ("swa_v_head_dim", *values)
    else:
        names = ("global_head_dim", *names)
    key = config.count(*names)
    if key is None:
        heads = _heads(config)
        hidden = config.need("hidden_size", "n_embd", "d_model", "n_embed")
        if hidden % heads:
            raise config.cannot_tell(f"head_dim is missing, and hidden_size {hidden} is not a multiple of {heads} heads")
        key = hidden // heads
    return key, config.count(*values) or key


def token_bytes(layer: Layer, element: Element, tp: int = 1) -> Fraction:
    """Of one token in one layer, on each of `tp` GPUs."""
    return heads_on_gpu(layer, tp) * (layer.key + layer.value) * element.size + layer.index_bytes


def heads_on_gpu(layer: Layer, tp: int) -> int:
    """Heads split over GPUs until each has one; from there on, and for a latent, each GPU has a copy."""
    return layer.heads if layer.latent else -(-layer.heads // tp)


def state_bytes(layer: Layer, tp: int = 1) -> Fraction:
    """Of one request in one layer, on each of `tp` GPUs."""
    if layer.state is None:
        return Fraction(0)
    return layer.state.size * Fraction(-(-layer.state.heads // tp), layer.state.heads)

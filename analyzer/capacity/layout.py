"""Which layers of a model keep keys and values of every token, of a window, a state per request, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from analyzer.capacity.config import Config, checked
from analyzer.language import _

# `hybrid` attends and keeps a state; `none` has neither (a layer of its own for the MLP)
Kind = Literal["full", "window", "chunk", "state", "hybrid", "none"]

_WORDS: dict[str, Kind] = {
    "full_attention": "full", "attention": "full", "global_attention": "full",
    "indexed_attention": "full", "deepseek_sparse_attention": "full",
    "sliding_attention": "window", "sliding_window_attention": "window", "local_attention": "window",
    "chunked_attention": "chunk",
    "linear_attention": "state", "mamba": "state", "mamba2": "state", "conv": "state",
    "hybrid": "hybrid",
    "mlp": "none", "moe": "none",
}  # fmt: skip
_LETTERS: dict[str, Kind] = {"M": "state", "*": "full", "-": "none", "E": "none"}
# Fields that change which layers keep what, in ways that are not modelled here.
_NOT_MODELLED = (
    "block_types", "compress_ratios", "attention_other_setting", "sliding_windows", "attention_layers",
    "attn_layers",
)  # fmt: skip
# The same, where no list of layers comes with it.
_NOT_MODELLED_ALONE = ("global_attn_every_n_layers",)


def kinds_of(config: Config) -> tuple[Kind, ...]:
    """One kind per layer, in order."""
    if config.type.cannot_tell:
        raise config.cannot_tell(config.type.cannot_tell)
    if config.flag("is_encoder_decoder"):
        raise config.cannot_tell("an encoder-decoder keeps its input's keys and values apart")
    listed = config.items("layer_types") is not None
    for name in _NOT_MODELLED if listed else (*_NOT_MODELLED, *_NOT_MODELLED_ALONE):
        if config.get(name) is not None:
            raise config.cannot_tell(f"{name} is a field that is not known here")
    return _without_sharing(config, _told_kinds(config, config.layers()))


def _told_kinds(config: Config, layers: int) -> tuple[Kind, ...]:
    """By the first field that tells; without any, all layers attend to everything."""
    if config.type.layers:
        return _named(config, [config.type.layers] * layers, "model_type")
    for told in (_listed, _lettered, _by_index, _linear_config, _interval, _chunked, _windows):
        kinds = told(config, layers)
        if kinds is None:
            continue
        if len(kinds) != layers:
            raise config.cannot_tell(f"it has {layers} layers, and its list of layers has {len(kinds)}")
        return tuple(kinds)
    if config.type.mixed:
        raise config.cannot_tell("layer_types is missing")
    everything: Kind = "full"
    return (everything,) * layers


def _named(config: Config, words: Iterable[Any], field: str) -> tuple[Kind, ...]:
    kinds = []
    for word in words:
        kind = _WORDS.get(word) if isinstance(word, str) else None
        if kind is None:
            raise config.cannot_tell(f"{field} has a kind of layer that is not known here, {str(word)[:60]!r}")
        kinds.append(kind)
    return tuple(kinds)


def _listed(config: Config, layers: int) -> Sequence[Kind] | None:
    """A word for each layer. Windows that are switched off are none."""
    for field in ("layer_types", "layers_block_type"):
        words = config.items(field)
        if words is not None:
            kinds = _named(config, words, field)
            return [("full" if kind == "window" else kind) for kind in kinds] if config.flag("use_sliding_window") is False else kinds
    return None


def _lettered(config: Config, layers: int) -> Sequence[Kind] | None:
    """A letter for each layer: M-M*-."""
    pattern = config.text("hybrid_override_pattern")
    if pattern is None:
        return None
    unknown = sorted(set(pattern) - set(_LETTERS))
    if unknown:
        raise config.cannot_tell(f"hybrid_override_pattern has a letter that is not known here, {unknown[0]!r}")
    return [_LETTERS[letter] for letter in pattern]


def _by_index(config: Config, layers: int) -> Sequence[Kind] | None:
    """The layers that attend by number or by period, or 0 and 1 for each layer."""
    for field in ("attn_layer_indices", "full_attn_idxs"):
        attend = config.items(field)
        if attend is not None:
            return ["full" if i in attend else "state" for i in range(layers)]
    period = config.count("attn_layer_period")
    if period is not None:
        offset = config.count("attn_layer_offset", least=0) or 0
        return ["full" if i % period == offset else "state" for i in range(layers)]
    kinds: list[tuple[str, tuple[Kind, Kind]]] = [("attn_type_list", ("state", "full")), ("hybrid_layer_pattern", ("full", "window"))]
    for field, (zero, one) in kinds:
        flags = config.items(field)
        if flags is not None:
            return [one if checked(field, flag, least=0) else zero for flag in flags]
    return None


def _linear_config(config: Config, layers: int) -> Sequence[Kind] | None:
    """Layers that attend counted from 1, the others keep a state."""
    linear = config.table("linear_attn_config")
    attend = linear.get("full_attn_layers") if linear else None
    if not isinstance(attend, list):
        return None
    return ["full" if i + 1 in attend else "state" for i in range(layers)]


def _interval(config: Config, layers: int) -> Sequence[Kind] | None:
    """Every nth layer attends, the others keep a state."""
    interval = config.count("full_attention_interval")
    if interval is None:
        return None
    return ["full" if (i + 1) % interval == 0 else "state" for i in range(layers)]


def _chunked(config: Config, layers: int) -> Sequence[Kind] | None:
    """Layers with rotary positions attend within a chunk, the others to everything."""
    if config.count("attention_chunk_size") is None:
        return None
    rotary = config.items("no_rope_layers")
    if rotary is not None:
        return ["chunk" if checked("no_rope_layers", flag, least=0) else "full" for flag in rotary]
    interval = config.need("no_rope_layer_interval")
    return ["chunk" if (i + 1) % interval else "full" for i in range(layers)]


def _windows(config: Config, layers: int) -> Sequence[Kind] | None:
    """A sliding window in all layers, in all but every nth, or from one layer on."""
    if config.flag("use_sliding_window") is False or config.count("sliding_window") is None:
        return None
    pattern = config.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return _spelled(config, pattern, layers)
    every = config.count("sliding_window_pattern", "_sliding_window_pattern")
    if every is not None:
        return ["window" if (i + 1) % every else "full" for i in range(layers)]
    first = config.count("max_window_layers", least=0)
    if first is not None or config.flag("use_sliding_window"):
        return ["window" if i >= (first or 0) else "full" for i in range(layers)]
    if config.type.slides:
        return ["window"] * layers
    if not config.type.mixed:
        config.assume(_("The configuration has a sliding window and does not say in which layers: all are taken to keep every token"))
    return None


def _spelled(config: Config, pattern: str, layers: int) -> Sequence[Kind]:
    """LLLG: local, local, local, global, and so on; the last layer is global."""
    if set(pattern) - set("LG"):
        raise config.cannot_tell("sliding_window_pattern has letters other than L and G")
    return ["full" if pattern[i % len(pattern)] == "G" or i == layers - 1 else "window" for i in range(layers)]


def _without_sharing(config: Config, kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Layers that use an earlier layer's keys and values, or an image's, keep none of a token."""
    nothing: Kind = "none"
    shared = config.count("num_kv_shared_layers", least=0) or 0
    if shared >= len(kinds):
        raise config.cannot_tell(f"num_kv_shared_layers is {shared} of {len(kinds)} layers")
    if shared:
        return kinds[: len(kinds) - shared] + (nothing,) * shared
    if config.flag("use_cla"):
        every = config.need("cla_share_factor")
        return tuple(kind if i % every == 0 else nothing for i, kind in enumerate(kinds))
    crossing = config.items("cross_attention_layers")
    if crossing is not None:
        config.assume(_("Layers that attend to images keep nothing per token of text; what an image takes is not counted"))
        return tuple(nothing if i in crossing else kind for i, kind in enumerate(kinds))
    return kinds

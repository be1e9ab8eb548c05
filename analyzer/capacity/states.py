"""What a layer with a recurrent state (Mamba, linear attention, short convolution) keeps per request, however long it is."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from analyzer.capacity.config import Config, checked
from analyzer.capacity.elements import Element, element, model_element
from analyzer.language import _


@dataclass(frozen=True, slots=True)
class State:
    """One layer's: `convolution` elements of the last inputs and `recurrent` elements of the matrix, each with its bytes per element.

    It is split over GPUs by `heads`.
    """

    convolution: int
    convolution_bytes: Fraction
    recurrent: int
    recurrent_bytes: Fraction
    heads: int

    @property
    def size(self) -> Fraction:
        """Bytes of one request in one layer, on all GPUs together."""
        return self.convolution * self.convolution_bytes + self.recurrent * self.recurrent_bytes


def state_of(config: Config) -> State | None:
    """What each such layer keeps; None where the configuration does not tell."""
    for shape in (_delta_net, _linear_config, _short_convolution, _lightning, _mamba):
        found = shape(config)
        if found is not None:
            convolution, recurrent, heads = found
            plain = model_element(config)
            matrix = _recurrent_element(config) if recurrent else plain
            return State(convolution, plain.size, recurrent, matrix.size, heads)
    config.assume(_("What its recurrent layers keep per request does not follow from the configuration and is not counted"))
    return None


Shape = tuple[int, int, int]


def _recurrent_element(config: Config) -> Element:
    told = config.text("mamba_ssm_dtype", "mamba_ssm_cache_dtype")
    if told is not None:
        return element(told)
    config.assume(_("Recurrent states are taken to be kept in float32; a server may keep them in 16 bits"))
    return element("float32")


def _delta_net(config: Config) -> Shape | None:
    values = config.count("linear_num_value_heads")
    if values is None:
        return None
    keys, key, value = (config.need(f"linear_{name}") for name in ("num_key_heads", "key_head_dim", "value_head_dim"))
    kernel = config.need("linear_conv_kernel_dim")
    return (kernel - 1) * (2 * keys * key + values * value), values * key * value, keys


def _linear_config(config: Config) -> Shape | None:
    linear = config.table("linear_attn_config")
    if linear is None:
        return None
    named: dict[str, Any] = {name: linear.get(name) for name in ("num_heads", "head_dim", "short_conv_kernel_size")}
    if None in named.values():
        return None
    heads, dim, kernel = (checked(name, value) for name, value in named.items())
    return (kernel - 1) * 3 * heads * dim, heads * dim * dim, heads


def _short_convolution(config: Config) -> Shape | None:
    kernel = config.count("conv_L_cache")
    if kernel is None:
        return None
    width = config.count("conv_dim") or config.need("hidden_size")
    return (kernel - 1) * width, 0, width


def _lightning(config: Config) -> Shape | None:
    if not config.model_type.startswith("minimax"):
        return None
    heads = config.need("num_attention_heads")
    dim = config.count("head_dim") or config.need("hidden_size") // heads
    return 0, heads * dim * dim, heads


def _mamba(config: Config) -> Shape | None:
    """Both generations of Mamba; the second has heads of its own."""
    size = config.count("mamba_d_state", "ssm_state_size", "state_size")
    kernel = config.count("mamba_d_conv", "conv_kernel")
    if size is None or kernel is None:
        return None
    hidden = config.need("hidden_size")
    inner = config.count("mamba_d_ssm") or (config.count("mamba_expand", "expand") or 2) * hidden
    second = "num_heads" if config.model_type == "mamba2" else "mamba_n_heads"
    heads = config.count(second, "mamba_num_heads", "n_mamba_heads")
    if heads is None:
        return (kernel - 1) * inner, inner * size, inner
    named = "head_dim" if config.model_type == "mamba2" else "mamba_d_head"
    told = config.get(named)
    dim = None if told == "auto" else config.count(named, "mamba_head_dim", "mamba_headdim")
    inner = heads * dim if dim else inner
    groups = config.count("mamba_n_groups", "mamba_ngroups", "n_groups") or 1
    return (kernel - 1) * (inner + 2 * groups * size), inner * size, heads

"""What one element of the KV cache takes: the type the server keeps it in, from an option, or from the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from analyzer.capacity.config import Config
from analyzer.errors import KvpmError
from analyzer.language import _

_BYTES = {
    "float32": Fraction(4), "bfloat16": Fraction(2), "float16": Fraction(2), "fp8": Fraction(1), "int8": Fraction(1),
    # 4 bits, and a scale of one byte for every 16 elements
    "fp4": Fraction(9, 16),
}  # fmt: skip
_NAMES = {
    "fp32": "float32", "float": "float32", "bf16": "bfloat16", "fp16": "float16", "half": "float16",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_e4m3fn": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8",
    "fp4_e2m1": "fp4", "nvfp4": "fp4",
}  # fmt: skip
KV_DTYPES = ("auto", *_BYTES, *_NAMES)


@dataclass(frozen=True, slots=True)
class Element:
    """A type of element; `size` in bytes, with its share of scales."""

    name: str
    size: Fraction


def element(name: str) -> Element:
    """By any of its names; KvpmError for another."""
    known = name.lower().removeprefix("torch.")
    known = _NAMES.get(known, known)
    if known not in _BYTES:
        raise KvpmError(f"{name!r} is no type of KV cache that is known here", hint=f"one of {', '.join(KV_DTYPES)}")
    return Element(known, _BYTES[known])


def model_element(config: Config) -> Element:
    """What the engine computes in, for a model of this configuration."""
    told = config.text("torch_dtype", "dtype")
    if told is None:
        config.assume(_("torch_dtype is not in the configuration; 2 bytes per element, bfloat16, are assumed"))
        return element("bfloat16")
    known = element(told)
    if known.size >= 4:
        config.assume(_("The configuration says {dtype}; engines run such a model in 16 bits unless told otherwise", dtype=known.name))
        return element("float16")
    return known


def kv_element(config: Config, asked: str) -> Element:
    """What the server keeps keys and values in: `asked`, and for auto what the model is quantized for, else what it is computed in."""
    if asked.lower() != "auto":
        return element(asked)
    quantized = _quantized(config)
    if quantized is None:
        return model_element(config)
    config.assume(
        _("quantization_config asks for a KV cache in {dtype}; a server that does not follow it: --kv-dtype bf16", dtype=quantized.name)
    )
    return quantized


def _quantized(config: Config) -> Element | None:
    """What `quantization_config` says of the KV cache."""
    inner = config.table("quantization_config") or {}
    scheme = inner.get("kv_cache_scheme")
    if isinstance(scheme, dict) and scheme.get("num_bits") in (4, 8):
        kind = "fp" if scheme.get("type") == "float" else "int"
        name = f"{kind}{scheme['num_bits']}"
        return element(name) if name in _BYTES else None
    algorithm = inner.get("kv_cache_quant_algo")
    name = algorithm.lower() if isinstance(algorithm, str) else ""
    return element(name) if _NAMES.get(name, name) in _BYTES else None

"""How many tokens and requests the memory of some GPUs holds, for one model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from analyzer.capacity.layers import Layer, Model, heads_on_gpu, state_bytes, token_bytes
from analyzer.errors import KvpmError
from analyzer.language import _

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Gpus:
    """`tp` of them share each layer, `pp` stages share the layers out, `dp` copies of that serve side by side.

    `hbm_bytes` is what each has for KV alone, None where it is not told.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    hbm_bytes: int | None = None

    @property
    def total(self) -> int:
        """All of them."""
        return self.tp * self.pp * self.dp


@dataclass(frozen=True, slots=True)
class Group:
    """`count` layers that keep the same, and the bytes of one token in all of them: without `tp`, and on each of its GPUs."""

    layer: Layer
    count: int
    token_bytes: Fraction
    token_bytes_per_gpu: Fraction
    heads_per_gpu: int


@dataclass(frozen=True, slots=True)
class Fit:
    """Requests of one length (input and output together). Bytes on the fullest GPU, requests on all copies; None without a memory size.

    `most_bytes` and `fewest` hold where every layer keeps every token, `least_bytes` and `most` where layers with a window keep only that.
    """

    tokens: int
    most_bytes: Fraction
    least_bytes: Fraction
    fewest: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class Reported:
    """What a server said its pool holds: tokens, the bytes per GPU this makes, its share of `hbm_bytes`, and requests by length."""

    name: str
    tokens: int
    bytes_per_gpu: Fraction
    share: float | None
    requests: tuple[int, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Capacity:
    """One token takes `token_bytes` without `tp`, and `gpu_token_bytes` on the fullest GPU; a request's state takes `state_bytes` there.

    `pool_tokens` counts tokens that every layer keeps, on all copies; None without a memory size, or where no layer keeps tokens.
    """

    model: Model
    gpus: Gpus
    groups: tuple[Group, ...]
    token_bytes: Fraction
    gpu_token_bytes: Fraction
    state_bytes: Fraction
    pool_tokens: int | None
    fits: tuple[Fit, ...]
    assumed: tuple[str, ...]
    reported: tuple[Reported, ...] = field(default=())

    @property
    def has_windows(self) -> bool:
        """Whether some layers need not keep every token."""
        return any(group.layer.window is not None for group in self.groups)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return _to_dict(self)


def capacity(model: Model, gpus: Gpus, lengths: Sequence[int] = (), reported: Iterable[tuple[str, int, str]] = ()) -> Capacity:
    """What `gpus` hold of `model`. `reported` are (name, tokens, source) of one copy's pool. KvpmError for a split that cannot be."""
    assumed = list(model.assumed)
    _refuse_uneven(model, gpus)
    stages = tuple(_stages(model.layers, gpus.pp))
    if gpus.pp > 1 and len({len(stage) for stage in stages}) > 1:
        assumed.append(_("The layers do not divide evenly over the stages; the fullest counts, and an engine may cut elsewhere"))
    if any(layer.window is not None for layer in model.layers):
        assumed.append(
            _("At most: layers with a window keep only that. At least: they keep every token, as engines without a pool for them do")
        )
    if any(layer.state is not None for layer in model.layers):
        assumed.append(_("Each request has one state; cached prefixes keep more of them"))
    gpu_token = max(sum((token_bytes(layer, model.element, gpus.tp) for layer in stage), Fraction(0)) for stage in stages)
    fits = tuple(_fit(model, gpus, stages, tokens) for tokens in lengths)
    if model.positions is not None and any(fit.tokens > model.positions for fit in fits):
        positions = f"{model.positions:,}"
        assumed.append(_("The configuration names {n} positions; longer sequences need an extension (YaRN, …)", n=positions))
    pool = None if gpus.hbm_bytes is None or gpu_token == 0 else int(gpus.hbm_bytes / gpu_token) * gpus.dp
    return Capacity(
        model=model,
        gpus=gpus,
        groups=tuple(_groups(model, gpus.tp)),
        token_bytes=sum((token_bytes(layer, model.element) for layer in model.layers), Fraction(0)),
        gpu_token_bytes=gpu_token,
        state_bytes=max(sum((state_bytes(layer, gpus.tp) for layer in stage), Fraction(0)) for stage in stages),
        pool_tokens=pool,
        fits=fits,
        assumed=tuple(assumed),
        reported=tuple(_reported(name, tokens, source, gpu_token, gpus, lengths) for name, tokens, source in reported),
    )


def _refuse_uneven(model: Model, gpus: Gpus) -> None:
    for layer in model.layers:
        if layer.heads and not layer.latent and layer.heads % gpus.tp and gpus.tp % layer.heads:
            fitting = ", ".join(str(n) for n in range(1, layer.heads + 1) if layer.heads % n == 0)
            raise KvpmError(
                f"{layer.heads} KV heads do not split evenly over {gpus.tp} GPUs", hint=f"--tp {fitting}, or a multiple of {layer.heads}"
            )
    if gpus.pp > len(model.layers):
        raise KvpmError(
            f"{len(model.layers)} layers cannot be shared out over {gpus.pp} stages", hint=f"--pp of at most {len(model.layers)}"
        )


def _stages(layers: Sequence[Layer], pp: int) -> Iterator[Sequence[Layer]]:
    """Layers in a row, as even as can be, the longer stages last."""
    start = 0
    for stage in range(pp):
        end = start + (len(layers) + stage) // pp
        yield layers[start:end]
        start = end


def _groups(model: Model, tp: int) -> Iterator[Group]:
    """Equal layers together, in the order of their first; layers that keep nothing are left out."""
    counts: dict[Layer, int] = {}
    for layer in model.layers:
        counts[layer] = counts.get(layer, 0) + 1
    for layer, count in counts.items():
        if layer.elements or layer.state is not None:
            whole, each = (token_bytes(layer, model.element, n) * count for n in (1, tp))
            yield Group(layer, count, whole, each, heads_on_gpu(layer, tp))


def _fit(model: Model, gpus: Gpus, stages: Sequence[Sequence[Layer]], tokens: int) -> Fit:
    most, least = (max(_request_bytes(model, gpus.tp, stage, tokens, windows) for stage in stages) for windows in (False, True))
    if gpus.hbm_bytes is None or most == 0:
        return Fit(tokens, most, least, None, None)
    return Fit(tokens, most, least, int(gpus.hbm_bytes / most) * gpus.dp, int(gpus.hbm_bytes / least) * gpus.dp)


def _request_bytes(model: Model, tp: int, stage: Sequence[Layer], tokens: int, windows: bool) -> Fraction:
    """Of one request on each GPU of a stage."""
    size = Fraction(0)
    for layer in stage:
        kept = min(tokens, layer.window) if windows and layer.window is not None else tokens
        size += token_bytes(layer, model.element, tp) * kept + state_bytes(layer, tp)
    return size


def _reported(name: str, tokens: int, source: str, gpu_token: Fraction, gpus: Gpus, lengths: Sequence[int]) -> Reported:
    size = tokens * gpu_token
    share = float(size / gpus.hbm_bytes) if gpus.hbm_bytes else None
    return Reported(name, tokens, size, share, tuple(tokens // length * gpus.dp for length in lengths), source)


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _to_dict(c: Capacity) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "model_type": c.model.model_type,
        "layers": len(c.model.layers),
        "kv_dtype": c.model.element.name,
        "element_bytes": _number(c.model.element.size),
        "gpus": {"tp": c.gpus.tp, "pp": c.gpus.pp, "dp": c.gpus.dp, "hbm_bytes": c.gpus.hbm_bytes},
        "kv_bytes_per_token": _number(c.token_bytes),
        "kv_bytes_per_token_per_gpu": _number(c.gpu_token_bytes),
        "state_bytes_per_request_per_gpu": _number(c.state_bytes),
        "groups": [
            {
                "layers": g.count,
                "kv_heads": g.layer.heads,
                "kv_heads_per_gpu": g.heads_per_gpu,
                "key_elements": g.layer.key,
                "value_elements": g.layer.value,
                "latent": g.layer.latent,
                "window_tokens": g.layer.window,
                "index_bytes": g.layer.index_bytes,
                "bytes_per_token": _number(g.token_bytes),
                "bytes_per_token_per_gpu": _number(g.token_bytes_per_gpu),
                "state_bytes_per_request": _number(state_bytes(g.layer) * g.count),
            }
            for g in c.groups
        ],
        "pool_tokens": c.pool_tokens,
        "lengths": [
            {
                "tokens": fit.tokens,
                "request_bytes_per_gpu": {"least": _number(fit.least_bytes), "most": _number(fit.most_bytes)},
                "requests": None if fit.fewest is None else {"least": fit.fewest, "most": fit.most},
            }
            for fit in c.fits
        ],
        "reported": [
            {
                "name": r.name,
                "pool_tokens": r.tokens,
                "bytes_per_gpu": _number(r.bytes_per_gpu),
                "share_of_hbm": r.share,
                "requests": list(r.requests),
                "source": r.source,
            }
            for r in c.reported
        ],
        "assumed": list(c.assumed),
    }

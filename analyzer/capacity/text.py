"""The capacity for a terminal, with the arithmetic that leads to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from analyzer.capacity.layers import Layer, state_bytes
from analyzer.capacity.plan import Capacity, Group, Reported
from analyzer.language import _, ngettext
from analyzer.report import fmt


def text(capacity: Capacity, *, to_file: bool) -> str:
    """Bytes per token first, then what a GPU holds of it, the pool, the lengths, and what was assumed; coloured for a terminal only."""
    console = Console(highlight=False, no_color=True, width=130) if to_file or not sys.stdout.isatty() else Console(highlight=False)
    with console.capture() as capture:
        _print(console, capacity)
    # no-break spaces are for pages: a search in a terminal does not find them
    return "\n".join(line.rstrip().replace(fmt.NBSP, " ") for line in capture.get().splitlines()) + "\n"


def _print(console: Console, c: Capacity) -> None:
    console.print(Text(_headline(c), style="bold"))
    for group in c.groups:
        _indented(console, _arithmetic(c, group, split=False) + _kept(c, group))
    if c.gpus.tp > 1 or c.gpus.pp > 1:
        console.print(Text(_("On each GPU ({split}): {size} per token", split=_split(c), size=_size(c.gpu_token_bytes)), style="bold"))
        for group in c.groups:
            if group.layer.elements:
                _indented(console, _arithmetic(c, group, split=True))
        for sentence in _why_not_less(c):
            _indented(console, sentence)
    if c.state_bytes:
        console.print(Text(_("Recurrent state: {size} per request and GPU, however long it is", size=_size(c.state_bytes))))
    for i, sentence in enumerate(_pool(c)):
        console.print(Text(sentence, style="dim" if i else "bold"))
    for reported in c.reported:
        console.print(Text(_reported(reported)))
    if c.fits:
        console.print()
        console.print(_table(c))
    if c.assumed:
        console.print(Text("\n" + _("Assumed:"), style="bold"))
    for sentence in c.assumed:
        console.print(Padding(Text(f"- {sentence}"), (0, 0, 0, 2)))


def _indented(console: Console, line: str) -> None:
    console.print(Padding(Text(line), (0, 0, 0, 2)))


def _size(size: Fraction | int) -> str:
    """Bytes in binary units with four digits, so that the arithmetic shown can be followed: 1.25 GiB is not 1.2 GiB."""
    amount = float(size)
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{fmt.number(amount)}{fmt.NBSP}{unit}"


def _headline(c: Capacity) -> str:
    fields = {"model": fmt.clean(c.model.model_type, 60), "layers": _layers(len(c.model.layers)), "size": _size(c.token_bytes)}
    if not c.token_bytes:
        return _("{model}, {layers}: no KV cache per token", **fields)
    return _("{model}, {layers}: {size} of KV cache per token ({dtype})", dtype=c.model.element.name, **fields)


def _layers(n: int) -> str:
    return ngettext("{n} layer", "{n} layers", n, n=n)


def _split(c: Capacity) -> str:
    """The options that share a copy out."""
    return " ".join(f"--{name} {n}" for name, n in (("tp", c.gpus.tp), ("pp", c.gpus.pp)) if n > 1)


def _arithmetic(c: Capacity, group: Group, *, split: bool) -> str:
    """2 (K and V) × 80 layers × 8 KV heads × 128 × 2 B = 320 KiB."""
    layer = group.layer
    size = group.token_bytes_per_gpu if split else group.token_bytes
    if not layer.elements:
        return ""
    factors = [_layers(group.count)]
    if layer.latent:
        factors.append(_("({latent} latent + {rope} RoPE)", latent=layer.key, rope=layer.value))
    else:
        factors.append(_heads(layer, group.heads_per_gpu) if split else ngettext("{n} KV head", "{n} KV heads", layer.heads, n=layer.heads))
        if layer.key == layer.value:
            factors.insert(0, _("2 (K and V)"))
            factors.append(str(layer.key))
        else:
            factors.append(_("({key} K + {value} V)", key=layer.key, value=layer.value))
    factors.append(f"{fmt.number(float(c.model.element.size))} B")
    product = " × ".join(factors)
    if layer.index_bytes:
        product += " + " + _("{layers} × {n} B of index", layers=_layers(group.count), n=layer.index_bytes)
    return f"{product} = {_size(size)}"


def _heads(layer: Layer, on_gpu: int) -> str:
    return _("{n} of {heads} KV heads", n=on_gpu, heads=layer.heads)


def _kept(c: Capacity, group: Group) -> str:
    """What bounds it, behind the arithmetic."""
    layer, parts = group.layer, []
    if layer.window is not None:
        fields = {"tokens": fmt.plural(layer.window, "token"), "size": _size(group.token_bytes * layer.window)}
        parts.append(
            _("a chunk of {tokens}: at most {size} per request", **fields)
            if layer.chunked
            else _("a window of {tokens}: at most {size} per request", **fields)
        )
    if layer.state is not None:
        state = _size(state_bytes(layer) * group.count)
        parts.append(_("a state of {size} per request in {layers}", size=state, layers=_layers(group.count)))
    lead = "; " if layer.elements and parts else ""
    return lead + fmt.clauses(parts)


def _why_not_less(c: Capacity) -> Iterator[str]:
    """Where more GPUs do not make a token cheaper."""
    tp = c.gpus.tp
    if tp > 1 and any(g.layer.latent for g in c.groups):
        yield _("The latent is whole on each of the {n} GPUs: --tp gains nothing for it", n=tp)
    heads = sorted({g.layer.heads for g in c.groups if not g.layer.latent and 0 < g.layer.heads < tp})
    for n in heads:
        yield ngettext(
            "{n} KV head on {gpus} GPUs: {copies} have a copy of it; more --tp gains nothing",
            "{n} KV heads on {gpus} GPUs: {copies} have a copy of each; more --tp gains nothing",
            n,
            n=n,
            gpus=tp,
            copies=tp // n,
        )
    if c.gpus.pp > 1:
        yield _("Of {n} stages the one that keeps most counts", n=c.gpus.pp)


def _pool(c: Capacity) -> Iterator[str]:
    if c.pool_tokens is None or c.gpus.hbm_bytes is None:
        return
    fields = {"hbm": _size(c.gpus.hbm_bytes), "token": _size(c.gpu_token_bytes), "pool": fmt.plural(c.pool_tokens, "token")}
    if c.gpus.dp > 1:
        yield _("Pool: {hbm} per GPU / {token} × {dp} copies = {pool}", dp=c.gpus.dp, **fields)
    else:
        yield _("Pool: {hbm} per GPU / {token} = {pool}", **fields)
    if c.has_windows:
        yield _("(more of them where layers with a window keep only that)")
    if c.state_bytes:
        yield _("(less what the states of running requests take)")


def _reported(reported: Reported) -> str:
    fields = {
        "name": fmt.clean(reported.name, 120),
        "tokens": fmt.plural(reported.tokens, "token"),
        "size": _size(reported.bytes_per_gpu),
    }
    if reported.share is None:
        return _("Reported by {name}: {tokens}, which take {size} per GPU", **fields)
    return _("Reported by {name}: {tokens}, which take {size} per GPU, {share} of --hbm", share=fmt.share(reported.share), **fields)


def _table(c: Capacity) -> Table:
    """A row per length."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column(_("Input + output"), justify="right")
    names = [_("Bytes per GPU, at most"), _("at least")] if c.has_windows else [_("Bytes per GPU")]
    counted = any(fit.fewest is not None for fit in c.fits)
    if counted:
        names += [_("Requests at once, at least"), _("at most")] if c.has_windows else [_("Requests at once")]
    names += [_("of {name}", name=fmt.clean(reported.name, 40)) for reported in c.reported]
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    for i, fit in enumerate(c.fits):
        cells = [_size(fit.most_bytes), _size(fit.least_bytes)] if c.has_windows else [_size(fit.most_bytes)]
        if counted:
            cells += [fmt.number(fit.fewest), fmt.number(fit.most)] if c.has_windows else [fmt.number(fit.fewest)]
        cells += [fmt.number(reported.requests[i]) for reported in c.reported]
        table.add_row(fmt.plural(fit.tokens, "token"), *(Text(cell) for cell in cells))
    return table

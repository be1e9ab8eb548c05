"""A model's configuration (Hugging Face config.json): read, found where it is nested, and asked for fields that are checked."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from analyzer.errors import KvpmError, NothingUsableError
from analyzer.language import _

# Where models with several parts keep the one that makes text.
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
# Lists with an entry per layer, which may stand alone.
_LISTS = ("layer_types", "layers_block_type", "hybrid_override_pattern")
_MAX_BYTES = 64 * 2**20
MAX_LAYERS = 10_000
_MAX_COUNT = 10**8


@dataclass(frozen=True, slots=True)
class ModelType:
    """What the code of a model type knows and a configuration leaves out.

    `defaults` are fields; `layers` is the kind of all its layers; `slides`: a window holds for all layers; `mixed`: its layers differ, and
    without a list of them nothing can be told; `cannot_tell` says why nothing can be told at all.
    """

    defaults: Mapping[str, int] = field(default_factory=dict)
    layers: str = ""
    slides: bool = False
    mixed: bool = False
    cannot_tell: str = ""


@lru_cache
def model_types() -> Mapping[str, ModelType]:
    """By `model_type`; a type that is not in it says all there is to know itself."""
    text = resources.files("analyzer.capacity").joinpath("model_types.toml").read_text(encoding="utf-8")
    return {name: ModelType(**entry) for name, entry in tomllib.loads(text).items()}


class Config:
    """The part of a configuration that describes the text model. `assumed` collects what had to be assumed to read it."""

    def __init__(self, whole: Mapping[str, Any]) -> None:
        self._whole = whole
        self._fields = _text_part(whole)
        self.model_type = self.text("model_type") or "unknown"
        self.type = model_types().get(self.model_type, ModelType())
        self.assumed: list[str] = []

    def assume(self, sentence: str) -> None:
        """Say something that was assumed, once."""
        if sentence not in self.assumed:
            self.assumed.append(sentence)

    def get(self, name: str) -> Any:
        """The raw value, of the text model only; None where it is not there."""
        return self._fields.get(name)

    def text(self, *names: str) -> str | None:
        """The first of these fields that is there, of the text model or of the whole."""
        for fields in (self._fields, self._whole):
            for name in names:
                value = fields.get(name)
                if isinstance(value, str) and value:
                    return value[:100]
        return None

    def table(self, name: str) -> Mapping[str, Any] | None:
        """A field that holds fields, of the text model or of the whole."""
        value = self._fields.get(name) or self._whole.get(name)
        return value if isinstance(value, dict) else None

    def flag(self, name: str) -> bool | None:
        """A field that is true or false."""
        value = self.get(name)
        return value if isinstance(value, bool) else None

    def items(self, name: str) -> Sequence[Any] | None:
        """A field that is a list; an empty one is none."""
        value = self.get(name)
        return value if isinstance(value, list) and value else None

    def count(self, *names: str, least: int = 1) -> int | None:
        """The first of these fields that is there, else the type's default: a whole number of at least `least`."""
        for name in names:
            value = self.get(name)
            if value is not None:
                return checked(name, value, least)
        for name in names:
            # a field that is null says that there is none
            value = None if name in self._fields else self.type.defaults.get(name)
            if value is not None:
                fields = {"field": name, "value": value, "type": self.model_type}
                self.assume(_("{field} is not in the configuration; {value} is the default of {type}", **fields))
                return value
        return None

    def need(self, *names: str) -> int:
        """`count`, where nothing can be told without it."""
        value = self.count(*names)
        if value is None:
            raise self.cannot_tell(f"{names[0]} is missing")
        return value

    def for_layer(self, at: int) -> Config:
        """The same with what the configuration says of one layer alone; what is assumed is collected in one place."""
        for number, fields in (self.table("per_layer_config") or {}).items():
            if number.isascii() and number.isdigit() and int(number[:6]) == at and isinstance(fields, dict):
                layer = Config({**self._fields, **fields})
                layer.assumed = self.assumed
                return layer
        return self

    def layers(self) -> int:
        """How many layers it has."""
        listed = next((items for name in _LISTS if (items := self.get(name))), None)
        named = any(self.get(name) is not None for name in _LAYERS)
        layers = len(listed) if not named and isinstance(listed, list | str) else self.need(*_LAYERS)
        if layers > MAX_LAYERS:
            raise NothingUsableError(f"a model with {layers:,} layers is not believable", hint="is this the model's config.json?")
        return layers

    def cannot_tell(self, why: str) -> NothingUsableError:
        """The error for a model whose KV cache does not follow from its configuration."""
        return NothingUsableError(
            f"cannot tell the KV bytes per token of this model ({self.model_type}): {why}",
            hint="the engine's start-up lines tell the pool's tokens and bytes: kvpm diagnose server.log",
        )


def checked(name: str, value: Any, least: int = 1) -> int:
    """A whole number that a model can have, or KvpmError that names the field."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise NothingUsableError(f"{name} is {_short(value)}, which is no whole number", hint="is this the model's config.json?")
    if not least <= value <= _MAX_COUNT:
        raise NothingUsableError(f"{name} is {_short(value)}, which no model has", hint="is this the model's config.json?")
    return value


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**20) else type(value).__name__
    return f"{value!r}"[:40] if isinstance(value, str) else text


def _text_part(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """The table with the text model's fields; the top level where no part has any."""
    for name in _NESTED:
        part = whole.get(name)
        if isinstance(part, dict):
            inner = _text_part(part)
            known = any(layers in inner for layers in _LAYERS) or inner.get("model_type") in model_types()
            if known or not any(layers in whole for layers in _LAYERS):
                return inner
    return whole


def config_file(path: str) -> Path:
    """The file that `path` names: itself, or the one in a model's folder."""
    file = Path(path)
    return file / "config.json" if file.is_dir() else file


def read_config(path: str) -> Config:
    """The configuration in a file, in a model's folder, or on standard input (`-`). KvpmError where there is none."""
    if path == "-":
        return Config(_parsed(sys.stdin.buffer.read(_MAX_BYTES + 1), "standard input"))
    file = config_file(path)
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise KvpmError(f"{file} does not exist", hint="name a model's config.json, or the folder it is in") from None
    except OSError as error:
        raise KvpmError(f"{file} cannot be read: {error.strerror}", hint="name a model's config.json, or the folder it is in") from error
    return Config(_parsed(data, str(file)))


def _parsed(data: bytes, name: str) -> Mapping[str, Any]:
    hint = "name the config.json that lies beside a model's weights"
    if len(data) > _MAX_BYTES:
        raise NothingUsableError(f"{name} is larger than any configuration", hint=hint)
    try:
        value = json.loads(data)
    except RecursionError:
        raise NothingUsableError(f"{name} is nested deeper than any configuration", hint=hint) from None
    except ValueError as error:
        raise NothingUsableError(f"{name} is not JSON: {str(error)[:80]}", hint=hint) from None
    if not isinstance(value, dict):
        raise NothingUsableError(f"{name} holds no JSON object", hint=hint)
    return value

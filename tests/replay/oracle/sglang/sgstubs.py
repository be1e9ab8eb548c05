"""Lets SGLang be imported without a GPU: some top-level packages are faked, one is hidden, and nothing under sglang is replaced."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any
from unittest.mock import MagicMock

# kernels and helpers that are not called
FAKED = {"sgl_kernel", "torchvision", "gguf"}
# SGLang probes for it, and a build for another CPU dies on being asked
HIDDEN = {"vllm"}
# what was asked for
faked: list[str] = []


class _Fake(types.ModuleType):
    """A module that has everything."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "99.0.0"
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        root = name.split(".")[0]
        if root in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if root in FAKED else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _Fake(spec.name)
        module.__path__ = []
        faked.append(spec.name)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def install() -> None:
    """Before anything of sglang is imported."""
    sys.meta_path.insert(0, _Finder())

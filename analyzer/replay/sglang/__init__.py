"""SGLang's admission and retraction as a discrete-event model: step by step what its scheduler decides, without a device."""

from analyzer.replay.sglang.loop import serve
from analyzer.replay.sglang.versions import rules_of

__all__ = ["rules_of", "serve"]

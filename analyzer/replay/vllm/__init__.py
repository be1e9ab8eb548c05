"""vLLM's V1 scheduler and KV cache manager as a discrete-event model."""

from analyzer.replay.vllm.loop import serve

__all__ = ["serve"]

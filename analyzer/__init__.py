"""kvpm: post-mortem analysis of LLM serving incidents from what the servers left behind."""

__version__ = "0.1.0"

"""Capacity: what a token of context costs in KV cache, by the model's configuration, and how many requests a pool holds."""

"""Others that read the same inputs, each run in a process of its own: what people write today, and the least that a reader can cost."""

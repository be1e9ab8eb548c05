"""Many captures at once: a report each, made in worker processes, and an index of all of them."""

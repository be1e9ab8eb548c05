"""From a stored trace to what is replayed: settings, workload, step time and what was seen, of one process run of a server."""

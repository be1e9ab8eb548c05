"""How fast the tool is, beside others that do the same or less: `make bench`, or `python -m benchmarks`."""

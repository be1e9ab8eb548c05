"""The section of the report that tells what a replay of the worst server came to: what would have helped."""

"""Replay: an incident's own arrivals through a model of the engine's admission, unchanged and then with one thing different."""

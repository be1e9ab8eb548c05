"""Inputs that are made up: seeded, of any size, written as a stream."""

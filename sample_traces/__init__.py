"""Small labelled traces that ship with the project, and the generator that wrote most of them."""

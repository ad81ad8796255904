"""One experiment over a grid of its keys, in processes or on a cluster."""

"""Adapters: other people's files into cosim and cosim's into theirs."""

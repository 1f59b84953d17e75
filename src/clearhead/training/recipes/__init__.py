"""Runs put together from parts: which data, which network, which objective, how long."""

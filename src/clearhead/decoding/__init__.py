"""Tokens one after another: greedy, beam and sampling over any model that can begin and step."""

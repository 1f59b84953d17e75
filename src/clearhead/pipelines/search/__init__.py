"""Search: documents cut into passages, ranked by words, by meaning, or by both."""

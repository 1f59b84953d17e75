"""Which tokens did an answer come from: several methods, and a measure of how far to trust each."""

"""The parts: attention, layouts, positions, embeddings, blocks, heads, adapters."""

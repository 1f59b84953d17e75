"""Our parameter names ↔ Hugging Face's: one table per family."""

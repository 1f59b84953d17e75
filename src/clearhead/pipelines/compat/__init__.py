"""The pipelines of transformers v4 under their old names: the same arguments, the same result dictionaries."""

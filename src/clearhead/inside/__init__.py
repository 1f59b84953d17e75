"""Look inside: the trace of one forward pass, and pictures of it as self-contained pages."""

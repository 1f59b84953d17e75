"""Logits and a batch to a loss: one small file per objective."""

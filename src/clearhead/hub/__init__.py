"""Checkpoint folders in Hugging Face's layout: find, read, write, publish, convert."""

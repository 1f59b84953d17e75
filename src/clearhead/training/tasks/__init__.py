"""What can be trained: each task runs a network on a batch and gives the parts of its loss."""

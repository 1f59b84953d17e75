"""A client of a service that `clearhead serve` runs: the methods of a model, without torch."""

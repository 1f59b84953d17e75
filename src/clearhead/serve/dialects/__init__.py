"""The dialects of the service: pure functions from a request to work, and from what was done to the answer."""

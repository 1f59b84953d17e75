"""Every use over HTTP: a front that speaks many dialects, and a worker process that computes."""

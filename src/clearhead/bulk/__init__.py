"""Many files, many machines: a worker for every engine, and shards that are done once, whoever hands them out."""

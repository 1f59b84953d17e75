"""One loop for every model and objective: optimisers, schedules, budget, checkpoint, resume, reporting."""

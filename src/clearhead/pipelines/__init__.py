"""Text in, answers out: the model a user holds, and one file per use."""

"""Every error a user can cause. The text says what is wrong, shows the value, and says what to do."""


class ClearheadError(Exception):
    """Base of all errors raised on purpose; the command line prints it as one line and exits with 2."""


class BadInput(ClearheadError, ValueError):
    """An argument or a text that cannot be worked with."""


class InputTooLong(BadInput):
    """More tokens than the model has positions."""


class BadConfig(ClearheadError, ValueError):
    """A configuration value that is out of range, inconsistent or unknown."""


class BadCheckpoint(ClearheadError):
    """A checkpoint folder that is incomplete, damaged, or does not fit its own configuration."""


class UnsafeCheckpoint(BadCheckpoint):
    """A file that could run code when opened, such as a pickle. It is never opened."""


class NotFound(ClearheadError, LookupError):
    """A model, file, head or name that is not there, or not there while offline."""


class WrongTask(ClearheadError):
    """A use that the loaded checkpoint has no head for."""


def require(condition: bool, message: str, error: type[ClearheadError] = BadConfig) -> None:
    """Raise `error(message)` unless the condition holds."""
    if not condition:
        raise error(message)

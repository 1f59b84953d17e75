"""Progress of an evaluation, told in examples, whatever a model works through."""

from collections.abc import Callable

Progress = Callable[[int], None]  # as pipelines.engine has it, which would bring torch in here


def in_examples(progress: Progress | None, parts: int, examples: int) -> Progress | None:
    """Make what a model tells of its parts, such as the texts of pairs, and so many in all, into news of examples."""
    if progress is None:
        return None
    tell, done = progress, 0

    def part_done(more: int) -> None:
        nonlocal done
        before, done = done, done + more
        tell(done * examples // parts - before * examples // parts)

    return part_done

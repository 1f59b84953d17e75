"""`clearhead search`: the passages that fit a query."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.inout import JsonOption, ModelOption, given_texts, print_json, progress, shown
from clearhead.errors import BadInput

if TYPE_CHECKING:
    from clearhead.pipelines.search.index import Index


def search(
    query: Annotated[str, typer.Argument(help='What to look for, or "-" for one query a line from stdin.')],
    more: Annotated[list[Path] | None, typer.Argument(metavar="[FILES]...", help="More files for --in.")] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--in", help="Files (.txt, .md, .jsonl) or folders of them to look in.")
    ] = None,
    index: Annotated[Path | None, typer.Option(help="Save the index here; without --in, the one to search.")] = None,
    model: ModelOption = None,
    method: Annotated[str | None, typer.Option(help="vectors, the default, bm25 (no model needed) or hybrid.")] = None,
    rerank: Annotated[str | None, typer.Option(help="A cross-encoder that reads the best 100 again.")] = None,
    top: Annotated[int, typer.Option(help="How many passages to show.")] = 5,
    json: JsonOption = False,
) -> None:
    """Find the passages of documents that fit a query, by their words, their meaning or both.

    Example: `clearhead search "Can you get medicine for someone pharmacy" --in *.md --model ./my-model`
    """
    from clearhead.pipelines.model import load

    queries = given_texts([query], None)
    found = _index([*(files or []), *(more or [])], index, model, words_only=method == "bm25")
    cross = None if rerank is None else load(rerank)
    results = found.search(queries, top=top, method=method, rerank_with=cross)  # type: ignore[arg-type]
    for asked, hits in zip(queries, results, strict=True):
        if json:
            print_json({"query": asked, "results": [hit.to_dict() for hit in hits]})
            continue
        for hit in hits:
            typer.echo(f"{hit.score:.3f}  {hit.source} ({hit.start}–{hit.end})  {shown(hit.text, 200)}")


def _index(files: list[Path], folder: Path | None, model: str | None, *, words_only: bool) -> "Index":
    """Build the index, and save it if a folder is named; or load it from there."""
    from clearhead.pipelines.model import load
    from clearhead.pipelines.search.index import Index
    from clearhead.pipelines.search.sources import read_documents

    if not files and folder is None:
        raise BadInput("nothing to search; name files or folders with --in, or a saved index with --index")
    loaded = None if words_only else load(model)
    if not files and folder is not None:
        return Index.load(folder, loaded)
    with progress("embedding", None) as advance:
        built = Index.build(read_documents(files), loaded, progress=advance)
    if folder is not None:
        built.save(folder)
    return built

"""Verbs over many texts: search, cluster, duplicates."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import (
    Int8Option,
    JsonOption,
    ModelOption,
    TextsArgument,
    TextsOption,
    expect_many,
    given_texts,
    print_json,
    progress,
    quantised,
    shown,
)
from clearhead.errors import BadInput

if TYPE_CHECKING:
    from clearhead.pipelines.model import Model
    from clearhead.pipelines.search.index import Index
    from clearhead.pipelines.search.passages import Document


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
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Find the passages of documents that fit a query, by their words, their meaning or both.

    Example: `clearhead search "Can you get medicine for someone pharmacy" --in *.md`
    """
    from clearhead.pipelines.model import load
    from clearhead.pipelines.search.index import Index
    from clearhead.pipelines.search.passages import cut_passages, read_documents

    queries = given_texts([query], None)
    places = [*(files or []), *(more or [])]
    if not places and index is None:
        raise BadInput("nothing to search; name files or folders with --in, or a saved index with --index")
    documents = list(read_documents(places))
    loaded = None if method == "bm25" else load(model)
    if int8:
        if loaded is None:
            raise BadInput("--int8 is for vectors, and bm25 makes none; leave one of the two out")
        passages = (one.text[start:end] for one in documents for start, end in cut_passages(one.text))
        loaded = quantised(loaded, "embed", passages if places else queries)
    found = Index.load(index, loaded) if index is not None and not places else _built(documents, loaded, index)
    cross = None if rerank is None else load(rerank)
    results = found.search(queries, top=top, method=method, rerank_with=cross)  # type: ignore[arg-type]
    for asked, hits in zip(queries, results, strict=True):
        if json:
            print_json({"query": asked, "results": [hit.to_dict() for hit in hits]})
            continue
        for hit in hits:
            typer.echo(f"{hit.score:.3f}  {hit.source} ({hit.start}–{hit.end})  {shown(hit.text, 200)}")


def _built(documents: "list[Document]", model: "Model | None", folder: Path | None) -> "Index":
    """Build the index, and save it if a folder is named."""
    from clearhead.pipelines.search.index import Index

    expect_many()
    with progress("embedding", None) as advance:
        built = Index.build(documents, model, progress=advance)
    if folder is not None:
        built.save(folder)
    return built


def cluster(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    threshold: Annotated[float | None, typer.Option(help="How near, by cosine, texts of a group are.")] = None,
    clusters: Annotated[int | None, typer.Option(help="How many groups to make, by k-means.")] = None,
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Group texts by meaning: the size of each group and its most central text, or with --json its members too.

    Example: `clearhead cluster --in texts.txt --threshold 0.6`
    """
    from clearhead.errors import BadInput, require
    from clearhead.pipelines.model import load

    require((threshold is None) != (clusters is None), "give --threshold or --clusters, one of the two", BadInput)
    wanted = given_texts(texts, file)
    loaded = load(model)
    if int8:
        loaded = quantised(loaded, "embed", wanted)
    with progress("embedding", len(wanted)) as advance:
        groups = loaded.cluster(wanted, threshold=threshold, clusters=clusters, progress=advance)
    for group in groups:
        if json:
            print_json({"text": wanted[group.centre], **group.to_dict()})
        else:
            typer.echo(f"{len(group.members):>6}  {shown(wanted[group.centre], 100)}")


def duplicates(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    threshold: Annotated[float, typer.Option(help="How near, by cosine, two texts must be.")] = 0.9,
    drop: Annotated[bool, typer.Option("--drop", help="Print the texts themselves, without the duplicates.")] = False,
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Find texts that repeat another, letter for letter or nearly; they are counted from 0.

    Example: `clearhead duplicates --in texts.txt --drop > different.txt`
    """
    from clearhead.pipelines.clustering import kept
    from clearhead.pipelines.model import load

    wanted = given_texts(texts, file)
    loaded = load(model)
    if int8:
        loaded = quantised(loaded, "embed", wanted)
    with progress("embedding", None) as advance:
        found = loaded.duplicates(wanted, threshold=threshold, progress=advance)
    if drop:
        for place in kept(len(wanted), found):
            if json:
                print_json({"index": place, "text": wanted[place]})
            else:
                typer.echo(wanted[place])
        return
    for one in found:
        if json:
            print_json({**one.to_dict(), "texts": [wanted[one.first], wanted[one.second]]})
        else:
            kind = "copy " if one.exact else f"{one.score:.3f}"
            typer.echo(f"{kind}  {one.first} {shown(wanted[one.first])}  =  {one.second} {shown(wanted[one.second])}")

"""Verbs over many texts: search, cluster, duplicates."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from clearhead.cli.options import (
    SAID,
    GivenTexts,
    Int8Option,
    Loaded,
    ModelOption,
    Verbs,
    claim,
    expect_many,
    given_texts,
    load_model,
    note,
    progress,
    quantised,
)
from clearhead.cli.render import Rows, shorten
from clearhead.errors import BadInput, require

app = Verbs()


@app.verb
def search(
    query: Annotated[str, Argument(help='What to look for, or "-" for one query a line from stdin.'), SAID],
    more: list[Path] | None = Argument(None, metavar="[FILES]...", help="More files for --in."),
    files: list[Path] | None = Option(
        None, "--in", help="Files or folders to look in: text, HTML, PDF, tables, .jsonl."
    ),
    index: Path | None = Option(None, help="Save the index here; without --in, the one to search."),
    model: ModelOption = None,
    method: str | None = Option(None, help="hybrid, the default, vectors, or bm25 (no model needed)."),
    min_score: float | None = Option(None, help="Show only what scores so much; of hybrid a probability."),
    rerank: str | None = Option(None, help="A cross-encoder that reads the best 100 again."),
    top_k: int = Option(5, help="How many passages to show."),
    int8: Int8Option = False,
    overwrite: bool = Option(False, "--overwrite", help="Replace an index that is there already."),
) -> Rows:
    """Find the passages of documents that fit a query, by their words, their meaning or both.

    Example: `clearhead search "Can you get medicine for someone pharmacy" --in *.md`
    """
    from clearhead.data.documents import read_documents
    from clearhead.pipelines.search.index import Index
    from clearhead.pipelines.search.passages import cut_passages

    queries = [one.text for one in given_texts([query])]
    places = [*(files or []), *(more or [])]
    named = bool(places) or index is not None
    require(named, "nothing to search; name files or folders with --in, or a saved index with --index", BadInput)
    with claim(index if places else None, overwrite=overwrite, kind="folder"):
        documents = list(read_documents(places, note))
        loaded = None if method == "bm25" else load_model(model)
        if int8:
            if loaded is None:
                raise BadInput("--int8 is for vectors, and bm25 makes none; leave one of the two out")
            passages = (one.text[start:end] for one in documents for start, end in cut_passages(one.text))
            loaded = quantised(loaded, "embed", passages if places else queries)
        if index is not None and not places:
            found = Index.load(index, loaded)
        else:
            expect_many()
            total = None if loaded is None else sum(len(cut_passages(one.text)) for one in documents)
            with progress("embedding", total) as advance:
                found = Index.build(documents, loaded, progress=advance)
            if index is not None:
                found.save(index, overwrite=overwrite)
    cross = None if rerank is None else load_model(rerank)
    results = found.search(queries, top_k=top_k, method=method, min_score=min_score, rerank_with=cross)  # type: ignore[arg-type]
    for asked, hits in zip(queries, results, strict=True):
        yield (
            {"query": asked, "results": [hit.to_dict() for hit in hits]},
            [f"{hit.score:.3f}  {hit.source} ({hit.start}–{hit.end})  {shorten(hit.text, 200)}" for hit in hits]
            or ["(nothing found)"],
        )


@app.verb
def cluster(
    given: GivenTexts,
    model: Loaded,
    threshold: float | None = Option(None, help="How near, by cosine, texts of a cluster are."),
    clusters: int | None = Option(None, help="How many clusters to make, by k-means."),
    int8: Int8Option = False,
) -> Rows:
    """Group texts by meaning: the size of each cluster and its most central text, or with --json its members too.

    Example: `clearhead cluster --in texts.txt --threshold 0.6`
    """
    require((threshold is None) != (clusters is None), "give --threshold or --clusters, one of the two", BadInput)
    texts = [one.text for one in given]
    if int8:
        model = quantised(model, "embed", texts)
    with progress("embedding", len(texts)) as advance:
        groups = model.cluster(texts, threshold=threshold, clusters=clusters, progress=advance)
    for group in groups:
        centre = texts[group.centre]
        yield {"text": centre, **group.to_dict()}, [f"{len(group.members):>6}  {shorten(centre, 100)}"]


@app.verb
def duplicates(
    given: GivenTexts,
    model: Loaded,
    threshold: float = Option(0.9, help="How near, by cosine, two texts must be."),
    drop: bool = Option(False, "--drop", help="Print the texts themselves, without the duplicates."),
    int8: Int8Option = False,
) -> Rows:
    """Find texts that repeat another, letter for letter or nearly; they are counted from 0.

    Example: `clearhead duplicates --in texts.txt --drop > different.txt`
    """
    from clearhead.pipelines.clustering import kept

    texts = [one.text for one in given]
    if int8:
        model = quantised(model, "embed", texts)
    with progress("embedding", None) as advance:
        found = model.duplicates(texts, threshold=threshold, progress=advance)
    if drop:
        for place in kept(len(texts), found):
            yield {"index": place, "text": texts[place]}, [texts[place]]
        return
    for one in found:
        both = [texts[one.first], texts[one.second]]
        kind = "copy " if one.exact else f"{one.score:.3f}"
        line = f"{kind}  {one.first} {shorten(both[0])}  =  {one.second} {shorten(both[1])}"
        yield {**one.to_dict(), "texts": both}, [line]

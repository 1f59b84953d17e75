"""Verbs over many texts: index, search, rerank, cluster, duplicates."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from clearhead.cli.options import (
    SAID,
    AnyModelWithSkill,
    GivenTexts,
    Int8Option,
    LoadedWithSkill,
    ModelOption,
    ServerOption,
    SkillOption,
    Verbs,
    claim,
    expect_many,
    given_texts,
    load_model,
    nonempty,
    note,
    progress,
    quantised,
)
from clearhead.cli.render import Rows, scored, shorten
from clearhead.errors import BadInput, require

if TYPE_CHECKING:
    from clearhead.pipelines.results import Hit

app = Verbs()
WHERE = "Only documents whose metadata fit: 'lang=de', 'year>=2020', 'tag in a,b'. May be repeated; all must hold."
_RERANK = "Let a cross-encoder read the best again. Default: if the model has a skill for it, and the method is hybrid."


STORE = "Where passages lie: postgresql://USER@HOST/DATABASE?table=NAME, lancedb:///FOLDER, or a folder."


@app.verb
def index(
    files: list[str] | None = Argument(None, help="Files or folders: text, HTML, PDF, tables, .jsonl."),
    store: str = Option(..., metavar="URL", help=f"{STORE} It is made if it is not there."),
    delete: list[str] | None = Option(
        None, metavar="SOURCE", help="Remove the document of this source; may be repeated."
    ),
    model: ModelOption = None,
    skill: SkillOption = None,
) -> Rows:
    """Put documents into a store: new ones, and those that have changed; what is there already is left as it is.

    Ended in any way and started again, it goes on where it was. Example: `clearhead index notes/ --store ./my-index`
    """
    from clearhead.data.documents import read_documents
    from clearhead.pipelines.search.store import is_url
    from clearhead.pipelines.search.stored import StoredIndex

    require(bool(files or delete), "nothing to do; name files or folders, or a document with --delete", BadInput)
    # a URL may hold a password, which no sentence about files may show
    wrong = [name for name in files or () if is_url(name) and not Path(name).exists()]
    require(not wrong, "a URL stands where files are named; the store is given with --store URL", BadInput)
    with StoredIndex.open(store, load_model(model) if files else None, skill=skill) as found:
        gone = found.delete(delete) if delete else 0
        if delete and not files:
            record: dict[str, Any] = {"store": str(found.store), "deleted": gone}
            yield record, [f"{gone:,} of {len(delete):,} documents were there, and are no longer"]
            return
        expect_many()
        with progress("embedding", None) as advance:
            done = found.add(read_documents(files or (), note), progress=advance)
        if done.repeated:
            note(f"{done.repeated:,} documents have the source of one before them, and are left out")
        total = len(found)
        record = {"store": str(found.store), **done.to_dict(), "deleted": gone, "stored": total}
        same = f"; {done.unchanged:,} were there as they are" if done.unchanged else ""
        yield record, [f"{done.documents:,} documents stored in {done.passages:,} passages{same}; {total:,} in all"]


@app.verb
def search(
    query: Annotated[str, Argument(help='What to look for, or "-" for one query a line from stdin.'), SAID],
    more: list[Path] | None = Argument(None, metavar="[FILES]...", help="More files for --in."),
    files: list[Path] | None = Option(
        None, "--in", help="Files or folders to look in: text, HTML, PDF, tables, .jsonl."
    ),
    index: Path | None = Option(
        None, help="Save the index here; without --in, the one to search, with --server by its name there."
    ),
    store: str | None = Option(
        None, metavar="URL", help=f"The store to search, as `clearhead index` fills it. {STORE}"
    ),
    where: list[str] | None = Option(None, help=WHERE),
    exact: bool = Option(False, "--exact", help="Compare vectors with all passages, however many there are."),
    model: ModelOption = None,
    skill: SkillOption = None,
    server: ServerOption = None,
    method: str | None = Option(None, help="hybrid, the default, vectors, or bm25 (no model needed)."),
    min_score: float | None = Option(None, help="Show only what scores so much; of hybrid a probability."),
    rerank: bool | None = Option(None, "--rerank/--no-rerank", help=_RERANK, show_default=False),
    rerank_with: str | None = Option(None, help="Another model to rerank with: any cross-encoder."),
    top_k: int = Option(5, help="How many passages to show."),
    int8: Int8Option = False,
    overwrite: bool = Option(False, "--overwrite", help="Replace an index that is there already."),
) -> Rows:
    """Find the passages of documents that fit a query, by their words, their meaning or both.

    Example: `clearhead search "Can you get medicine for someone pharmacy" --in *.md`
    """
    queries = [one.text for one in given_texts([query])]
    places = [*(files or []), *(more or [])]
    named = bool(places) or index is not None or store is not None
    told = "nothing to search; name files or folders with --in, a saved index with --index, or a store with --store"
    require(named, told, BadInput)
    require(store is None or not (places or index), "give --store, or --in and --index, not both", BadInput)
    wanted: dict[str, Any] = {"top_k": top_k, "method": method, "min_score": min_score, "rerank": rerank}
    if server is not None:
        local: dict[str, Any] = {"--int8": int8, "--rerank-with": rerank_with, "--store": store, "--exact": exact}
        local |= {"--index together with --in": places and index, "--where": where}
        wrong = next((name for name, given in local.items() if given), None)
        require(wrong is None, f"{wrong} needs a model that is loaded here; leave it or --server out", BadInput)
        results = _search_there(server, queries, places, index, {**wanted, "model": model, "skill": skill})
    else:
        wanted |= {"where": where, "approximate": False if exact else None}
        results = _search_here(
            queries,
            places,
            index,
            store,
            wanted,
            model=model,
            skill=skill,
            rerank_with=rerank_with,
            int8=int8,
            overwrite=overwrite,
        )
    for asked, hits in zip(queries, results, strict=True):
        yield (
            {"query": asked, "results": [hit.to_dict() for hit in hits]},
            [f"{hit.score:.3f}  {hit.source} ({hit.start}–{hit.end})  {shorten(hit.text, 200)}" for hit in hits]
            or ["(nothing found)"],
        )


def _search_there(
    server: str, queries: list[str], places: list[Path], index: Path | None, options: dict[str, Any]
) -> list[list["Hit"]]:
    """Search the documents, or an index of the service, by its model."""
    from clearhead.client.client import connect
    from clearhead.data.documents import read_documents

    where: dict[str, Any] = {"documents": read_documents(places, note)} if places else {"index": str(index)}
    return connect(server).search(queries, **where, **options)


def _search_here(
    queries: list[str],
    places: list[Path],
    index: Path | None,
    store: str | None,
    wanted: dict[str, Any],
    *,
    model: str | None,
    skill: str | None,
    rerank_with: str | None,
    int8: bool,
    overwrite: bool,
) -> list[list["Hit"]]:
    """Build the index of the documents, and save it if it has a place, or read a saved one, or a store; then search."""
    from clearhead.data.documents import read_documents
    from clearhead.pipelines.search.index import Index
    from clearhead.pipelines.search.passages import cut_passages
    from clearhead.pipelines.search.reranking import check_reranks
    from clearhead.pipelines.search.stored import StoredIndex

    method, rerank = wanted["method"], wanted["rerank"]
    if method == "bm25":
        wrong = "--int8" if int8 else f"--skill {skill}"
        require(not int8 and skill is None, f"{wrong} is for vectors, and bm25 makes none; leave it out", BadInput)
    with claim(index if places else None, overwrite=overwrite, kind="folder"):
        documents = list(read_documents(places, note))
        loaded = None if method == "bm25" else load_model(model)
        cross = None if rerank_with is None else load_model(rerank_with)
        if rerank and cross is None:
            cross = loaded or load_model(model)
        if cross is not None and rerank is not False:
            check_reranks(cross.able("rerank"))  # before the work of embedding
        if store is not None:
            require(not int8, "--int8 is for many texts, and a search in a store reads one; leave it out", BadInput)
            with StoredIndex.open(store, loaded, skill=skill) as stored:
                return stored.search(queries, rerank_with=cross, **wanted)
        embedder = loaded
        if int8 and loaded is not None:
            passages = (one.text[start:end] for one in documents for start, end in cut_passages(one.text))
            one_skill = loaded if skill is None else loaded.skill(skill)
            embedder, skill = quantised(one_skill, "search", passages if places else queries), None
        if index is not None and not places:
            found = Index.load(index, embedder, skill=skill)
        else:
            expect_many()
            total = None if loaded is None else sum(len(cut_passages(one.text)) for one in documents)
            with progress("embedding", total) as advance:
                found = Index.build(documents, embedder, skill=skill, progress=advance)
            if index is not None:
                found.save(index, overwrite=overwrite)
    found = replace(found, model=loaded)  # in 8 bits it has no other skills
    return found.search(queries, rerank_with=cross, **wanted)


@app.verb
def rerank(
    *,
    query: Annotated[str, Argument(callback=nonempty, help="What is looked for."), SAID],
    given: GivenTexts,
    model: AnyModelWithSkill,
    top_k: int | None = Option(None, help="How many passages to show. Default: all."),
) -> Rows:
    """Order passages, a line each or with --document a file each, by how probably they are what a query looks for.

    Example: `clearhead rerank "Who barks?" "Dogs bark." "Cats meow." --model ./cross-encoder`
    """
    texts = list(given)
    with progress("reading", len(texts)) as advance:
        found = model.rerank(query, [one.text for one in texts], top_k=top_k, progress=advance)
    results = [{**texts[one.index].record(), "index": one.index, "score": one.score} for one in found]
    places = [[texts[one.index].place] if texts[one.index].place else [] for one in found]
    lines = (scored(one.score, shorten(one.text, 200), *place) for one, place in zip(found, places, strict=True))
    yield {"query": query, "results": results}, lines


@app.verb
def cluster(
    given: GivenTexts,
    model: LoadedWithSkill,
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
        model = quantised(model, "search", texts)
    with progress("embedding", len(texts)) as advance:
        groups = model.cluster(texts, threshold=threshold, clusters=clusters, progress=advance)
    for group in groups:
        centre = texts[group.centre]
        yield {"text": centre, **group.to_dict()}, [f"{len(group.members):>6}  {shorten(centre, 100)}"]


@app.verb
def duplicates(
    given: GivenTexts,
    model: LoadedWithSkill,
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
        model = quantised(model, "search", texts)
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

"""Verbs of vectors: embed, senses, vectors train, vectors near."""

import sys
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from typer import Argument, Option

from clearhead.cli.options import (
    CORPUS,
    AnyModelWithSkill,
    AnyTexts,
    InOption,
    Int8Option,
    JsonOption,
    Loaded,
    Output,
    RunFolder,
    Shared,
    SingleTraining,
    Verbs,
    Written,
    given,
    given_texts,
    layer_numbers,
    progress,
    quantised,
    read_texts,
    sample,
    training_rows,
)
from clearhead.cli.render import Rows, shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from clearhead.pipelines.senses import Senses

app = Verbs()
POOLING = "Tokens to one vector: mean, first, max or weighted. Default: the model's own."
VectorOptions = Annotated[
    dict[str, Any],
    Shared(
        given,
        combine=(str, Option("mean", help="How to join several layers: mean, sum or concat.")),
        pooling=(str | None, Option(None, help=POOLING)),
        normalise=(bool | None, Option(None, help="Scale to length 1. Default: the model's own.")),
        dimensions=(int | None, Option(None, help="Keep the first so many dimensions. Default: all.")),
        precision=(str, Option("float32", help="float32, int8 (ranges of these texts) or binary.")),
    ),
]


@app.verb
def embed(
    texts: AnyTexts,
    model: AnyModelWithSkill,
    out: Annotated[
        Output | None, Written("out", Path | None, Option(None, help="Write all vectors to this .npy file."), "file")
    ],
    layers: str = Option("-1", help="Layers to take, from 0 (the embeddings) or from -1 (the last): -4,-3,-2,-1."),
    *,
    options: VectorOptions,
    int8: Int8Option = False,
    json: JsonOption = False,
) -> Rows:
    """Turn texts into vectors: any layer or mix of layers, one vector for each text.

    Example: `clearhead embed --in texts.txt --out vectors.npy`
    """
    from clearhead.io import staged_file

    chosen = layer_numbers(layers)
    if int8:
        # inner layers are those of the encoder itself, not of a skill
        model = quantised(model, "embed" if chosen == [-1] else "layers", sample(texts))
    # the ranges of int8 are those of all texts together; everything else goes out as it comes, in constant memory
    parts = [list(texts)] if options["precision"] == "int8" else texts.parts()
    with ExitStack() as stack:
        advance = stack.enter_context(progress("embedding", texts.total))
        file = None
        if out is not None:
            stage = stack.enter_context(staged_file(out.path, overwrite=out.overwrite))
            file = stack.enter_context(VectorFile(stage))
        for part in parts:
            found = model.embed([one.text for one in part], layers=chosen, progress=advance, **options)
            if file is not None:
                file.add(found)
                continue
            for one, vector in zip(part, found.tolist(), strict=True):
                # as many digits as single precision has; whole numbers stay whole
                digits = [float(f"{value:.7g}") if isinstance(value, float) else value for value in vector if json]
                shown = " ".join(f"{value:+.4f}" if isinstance(value, float) else str(value) for value in vector[:6])
                yield {**one.record(), "vector": digits}, [f"{shown} … ({len(vector)})  {shorten(one.text)}"]
    if file is not None and out is not None:
        typer.echo(f"wrote {file.rows} vectors of width {file.width} to {out.path}", err=True)


class VectorFile:
    """A .npy file that vectors are added to; its header, which says how many there are, is written again at the end."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._descr = "<f4"
        self.rows = self.width = 0

    def add(self, vectors: "NDArray[Any]") -> None:
        """Write (vectors, width)."""
        if not self.rows:
            self._descr, self.width = vectors.dtype.str, vectors.shape[1]
            self._write_header()
        self._file.write(vectors.tobytes())
        self.rows += len(vectors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._write_header()
        finally:
            self._file.close()

    def _write_header(self) -> None:
        from numpy.lib import format as npy

        self._file.seek(0)
        # numpy leaves room for the number of rows to grow, so that the second header is as long as the first
        header = {"descr": self._descr, "fortran_order": False, "shape": (self.rows, self.width)}
        npy.write_array_header_1_0(self._file, header)


@app.verb
def senses(
    *,
    word: list[str] = Argument(..., help="The word, found with -s too; other forms may follow, and then only these."),
    files: InOption = None,
    model: Loaded,
    layers: str | None = Option(None, help="Layers to average, from 0 or from -1, the last. Default: the last four."),
    threshold: float | None = Option(None, help="How near, by cosine, a sense's uses are. Default: 0.85 or by model."),
    count: int | None = Option(None, help="How many senses to make, whatever the threshold."),
) -> Rows:
    """Group the occurrences of a word by meaning, in texts from a file or stdin, and show how near they are.

    Without texts, bank, apple and train have the lectures' sentences.

    Examples: `clearhead senses bank`, `clearhead senses run running ran --in sentences.txt`
    """
    chosen = None if layers is None else layer_numbers(layers)
    texts = _sentences_with(word[0], files)
    found = model.senses(word if len(word) > 1 else word[0], texts, layers=chosen, threshold=threshold, count=count)
    order = [place for group in found.groups for place in group]
    lines = []
    for place in order:
        one = found.occurrences[place]
        cosines = " ".join(f"{cosine:.2f}" for cosine in found.cosines[place][order])
        text = texts[one.index]
        before = shorten(text[: one.start][::-1], 30)[::-1]
        lines.append(f"{one.sense}  {cosines}  {shorten(f'{before} {text[one.start :]}')}")
    lines.append(_how_near(found))
    yield {"word": word, **found.to_dict()}, lines


def _sentences_with(word: str, files: list[str] | None) -> list[str]:
    """The texts of files or of stdin; where nothing comes, the lectures' own for their words."""
    from clearhead.inside.senses import EXAMPLES

    own = list(chain.from_iterable(EXAMPLES.get(word, {}).values()))
    if files or not own:
        return [one.text for one in given_texts(files=files)]
    return ([] if sys.stdin.isatty() else [one.text for one in read_texts()]) or own


def _how_near(found: "Senses") -> str:
    """What the grouping rests on: how near the senses came to being joined, or the one sense to falling apart."""
    of = [one.sense for one in found.occurrences]
    near = [(found.cosines[i][j], of[i] == of[j]) for i in range(len(of)) for j in range(i)]
    between = [cosine for cosine, same in near if not same]
    asked = "" if found.threshold is None else f", joined from a mean cosine of {found.threshold:.3f} on"
    if between:
        return f"{max(of) + 1} senses{asked}; the nearest two of different senses: {max(between):.3f}"
    if not near:
        return "one occurrence; two can be compared"
    return f"one sense{asked}; its farthest two: {min(near)[0]:.3f}; --count 2 makes two of it"


vectors = Verbs("vectors", "Train and ask word vectors (word2vec): one for each word, whatever the sentence.")
app.add_typer(vectors)


@vectors.verb
def train(
    *,
    corpus: list[str] = Argument(..., help=CORPUS),
    out: RunFolder,
    kind: str | None = Option(None, help="skipgram (guess the words around) or cbow (guess the word in the middle)."),
    run: SingleTraining,
) -> Rows:
    """Learn a vector for every word of your own text; run it again to go on after a stop.

    Example: `clearhead vectors train wiki.txt --out ./my-vectors --kind skipgram`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.training.recipes.word2vec import Vectors, train_vectors

    texts = Corpus(corpus)
    plan = run.override(Vectors(), kind=kind)
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        learnt, result = train_vectors(
            texts, out.path, plan, overwrite=out.overwrite, progress=advance, **run.keywords()
        )
    yield from training_rows(result, out.path, f"{len(learnt):,} words", words=len(learnt))


@vectors.verb
def near(
    word: str = Argument(..., help="The word to look up."),
    model: Path = Option(..., "--model", "-m", help="The folder that `vectors train` wrote."),
    top_k: int | None = Option(None, help="How many neighbours.", show_default="10"),
) -> Rows:
    """Which words are used like this one? Prints them with their cosines.

    Example: `clearhead vectors near bank --model ./my-vectors`
    """
    from clearhead.pipelines.word_vectors import WordVectors

    found = WordVectors.load(model).near(word, top_k=top_k)
    record = {"word": word, "near": [{"word": other, "cosine": cosine} for other, cosine in found]}
    yield record, [f"{cosine:6.3f}  {other}" for other, cosine in found]

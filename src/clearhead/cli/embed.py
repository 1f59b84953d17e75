"""Verbs of vectors: embed, senses, vectors train, vectors near."""

from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import typer
from numpy.lib import format as npy
from numpy.typing import NDArray

from clearhead.cli.options import (
    CORPUS,
    INT8_SAMPLE,
    DeviceOption,
    Int8Option,
    JsonOption,
    ModelOption,
    RecipeOption,
    SetOption,
    SkillOption,
    TextsArgument,
    TextsOption,
    changes,
    command_line,
    given_texts,
    leave_if_interrupted,
    pick_device,
    print_json,
    progress,
    quantised,
    shown,
    stream_texts,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class VectorFile:
    """Vectors are added some at a time; the header, which says how many there are, is written again at the end."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._like: NDArray[Any] | None = None
        self.rows = 0

    @property
    def width(self) -> int:
        """Numbers in a vector; 0 if there is none."""
        return 0 if self._like is None else self._like.shape[1]

    def add(self, vectors: NDArray[Any]) -> None:
        """Write (vectors, width)."""
        if self._like is None:
            self._like = vectors[:0]
            self._header()
        self._file.write(np.ascontiguousarray(vectors).data)
        self.rows += len(vectors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._like is None:
            self._like = np.zeros((0, 0), np.float32)
        self._file.seek(0)
        self._header()
        self._file.close()

    def _header(self) -> None:
        assert self._like is not None  # noqa: S101
        shape = (self.rows, self._like.shape[1])
        # numpy leaves room for the number of rows to grow, so that the second header is as long as the first
        npy.write_array_header_1_0(
            self._file, {"descr": npy.dtype_to_descr(self._like.dtype), "fortran_order": False, "shape": shape}
        )


def embed(
    texts: TextsArgument = None,
    file: TextsOption = None,
    model: ModelOption = None,
    skill: SkillOption = None,
    out: Annotated[Path | None, typer.Option(help="Write all vectors to this .npy file.")] = None,
    layers: Annotated[
        str, typer.Option(help="Layers to take, from 0 (the embeddings) or from -1 (the last): -4,-3,-2,-1.")
    ] = "-1",
    combine: Annotated[str, typer.Option(help="How to join several layers: mean, sum or concat.")] = "mean",
    pooling: Annotated[
        str | None, typer.Option(help="Tokens to one vector: mean, first, max or weighted. Default: the model's own.")
    ] = None,
    normalise: Annotated[bool | None, typer.Option(help="Scale to length 1. Default: the model's own.")] = None,
    dimensions: Annotated[int | None, typer.Option(help="Keep the first so many dimensions. Default: all.")] = None,
    precision: Annotated[str, typer.Option(help="float32, int8 (ranges of these texts) or binary.")] = "float32",
    int8: Int8Option = False,
    json: JsonOption = False,
) -> None:
    """Turn texts into vectors: any layer or mix of layers, one vector for each text.

    Example: `clearhead embed --in texts.txt --out vectors.npy`
    """
    from clearhead.cli.embed import VectorFile
    from clearhead.io import staged
    from clearhead.pipelines.model import load
    from clearhead.pipelines.runner import chunks_of_text

    wanted, total = stream_texts(texts or [], file)
    chosen = numbers_of(layers)
    loaded = load(model, skill=skill)
    if int8:
        first = list(islice(wanted, INT8_SAMPLE))
        # inner layers are those of the encoder itself, not of a skill
        loaded = quantised(loaded, "embed" if chosen == [-1] else "layers", first)
        wanted = chain(first, wanted)
    # the steps of int8 are those of all texts together; everything else goes out as it comes, in constant memory
    parts = [list(wanted)] if precision == "int8" else chunks_of_text(wanted)
    with ExitStack() as stack:
        advance = stack.enter_context(progress("embedding", total))
        written = None
        if out is not None:
            stage = stack.enter_context(staged(out.parent))
            written = stack.enter_context(VectorFile(stage / out.name))
        for part in parts:
            vectors = loaded.embed(
                part,
                layers=chosen,
                combine=combine,  # type: ignore[arg-type]
                pooling=pooling,  # type: ignore[arg-type]
                normalise=normalise,
                dimensions=dimensions,
                precision=precision,  # type: ignore[arg-type]
                progress=advance,
            )
            if written is not None:
                written.add(vectors)
                continue
            for text, vector in zip(part, vectors, strict=True):
                _print(text, vector, json=json, rounded=precision == "float32")
    if written is not None:
        typer.echo(f"wrote {written.rows} vectors of width {written.width} to {out}", err=True)


def _print(text: str, vector: "NDArray[Any]", *, json: bool, rounded: bool) -> None:
    if json:
        print_json({"text": text, "vector": [_written(value) for value in vector.tolist()]})
        return
    start = " ".join(f"{value:+.4f}" if rounded else str(value) for value in vector[:6])
    typer.echo(f"{start} … ({len(vector)})  {shown(text)}")


def numbers_of(written: str) -> list[int]:
    """Read a list of layers."""
    from clearhead.errors import BadInput

    try:
        return [int(layer) for layer in written.split(",")]
    except ValueError:
        raise BadInput(f"--layers {written!r} is not a list of numbers such as -4,-3,-2,-1") from None


def _written(value: float | int) -> float | int:
    """As many digits as single precision has; whole numbers stay whole."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def senses(
    word: Annotated[list[str], typer.Argument(help="The word; other forms of it, such as its plural, may follow.")],
    file: TextsOption = None,
    model: ModelOption = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers whose mean to take, from 0 or from -1, the last. Default: the last four.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="How near, by cosine, occurrences of one sense are. Default: 0.85, or by the model."),
    ] = None,
    count: Annotated[int | None, typer.Option(help="How many senses to make, whatever the threshold.")] = None,
    json: JsonOption = False,
) -> None:
    """Group the occurrences of a word by meaning, in texts from a file or stdin, and show how near they are.

    Example: `clearhead senses bank banks --in sentences.txt`
    """
    from clearhead.cli.embed import numbers_of
    from clearhead.pipelines.model import load

    texts = given_texts(None, file)
    chosen = None if layers is None else numbers_of(layers)
    found = load(model).senses(word, texts, layers=chosen, threshold=threshold, count=count)
    if json:
        print_json({"word": word, **found.to_dict()})
        return
    order = [place for group in found.groups for place in group]
    for place in order:
        one = found.occurrences[place]
        cosines = " ".join(f"{cosine:.2f}" for cosine in found.cosines[place][order])
        before, whole = shown(texts[one.index][: one.start][::-1], 30)[::-1], texts[one.index]
        typer.echo(f"{one.sense}  {cosines}  {shown(f'{before} {whole[one.start :]}')}")


app = typer.Typer(name="vectors", help="Train and ask word vectors.", no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def vectors() -> None:
    """Word vectors (word2vec): one for each word, whatever the sentence."""


@app.command()
def train(
    corpus: Annotated[list[str], typer.Argument(help=CORPUS)],
    out: Annotated[Path, typer.Option(help="The folder of the run and, in the end, of the vectors.")],
    kind: Annotated[
        str | None, typer.Option(help="skipgram (guess the words around) or cbow (guess the word in the middle).")
    ] = None,
    recipe: RecipeOption = None,
    set_: SetOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Learn a vector for every word of your own text; run it again to go on after a stop.

    Example: `clearhead vectors train wiki.txt --out ./my-vectors --kind skipgram`
    """
    from clearhead.data.corpus import Corpus
    from clearhead.training.recipes.word2vec import Vectors, train_vectors
    from clearhead.training.settings import override

    texts = Corpus(corpus)
    plan = override(Vectors(), changes(recipe, set_, kind=kind))
    with progress("tokenising", texts.size, of_bytes=True) as advance:
        learnt, result = train_vectors(
            texts, out, plan, device=pick_device(device), progress=advance, command=command_line()
        )
    if json:
        print_json({"folder": str(out), "exit": result.exit, "steps": result.step, "words": len(learnt)})
    else:
        again = result.exit == "interrupted"
        outcome = "run the same command again to go on" if again else f"{len(learnt):,} words in {out}"
        typer.echo(f"{result.exit} after {result.step:,} steps: {outcome}")
    leave_if_interrupted(result)


@app.command()
def near(
    word: Annotated[str, typer.Argument(help="The word to look up.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="The folder that `vectors train` wrote.")],
    top: Annotated[int | None, typer.Option(help="How many neighbours.", show_default="10")] = None,
    json: JsonOption = False,
) -> None:
    """Which words are used like this one? Prints them with their cosines.

    Example: `clearhead vectors near bank --model ./my-vectors`
    """
    from clearhead.pipelines.word_vectors import WordVectors

    found = WordVectors.load(model).near(word, top=top)
    if json:
        print_json({"word": word, "near": [{"word": other, "cosine": cosine} for other, cosine in found]})
        return
    for other, cosine in found:
        typer.echo(f"{cosine:6.3f}  {other}")

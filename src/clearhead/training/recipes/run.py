"""The frame of every recipe: tokenise once, train in a folder, measure, and save the model with its card."""

import hashlib
import inspect
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack, cast

from torch import nn

from clearhead.data.corpus import Corpus
from clearhead.data.rng import BatchSource
from clearhead.data.shards import Shards, find_shards, tokenise
from clearhead.data.stream import StreamedExamples
from clearhead.errors import BadInput, ClearheadError, NotFound, require
from clearhead.evaluation.perplexity import perplexity
from clearhead.evaluation.scores import Evaluated, Metrics
from clearhead.hub.card import model_card, write_card
from clearhead.hub.checkpoint import write_folder
from clearhead.hub.config import read_config
from clearhead.hub.features import FeatureHead
from clearhead.hub.remote import CARD
from clearhead.hub.weights import digest
from clearhead.io import (
    Progress,
    check_free_folder,
    claimed,
    file_digest,
    is_run,
    read_object,
    staged,
    write_json,
    write_text,
)
from clearhead.nn.attention import Attend
from clearhead.pipelines.model import Model
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.training.checkpoint import DIGEST, check_same, checkpoints, compare, network_tensors, refuse
from clearhead.training.distributed import first_process, local_device, process_group, wait_for_first
from clearhead.training.loop import TrainResult, train
from clearhead.training.monitor import MEASURED, Report, read_rows
from clearhead.training.settings import NEVER, Settings, as_toml, beside_training, values_of
from clearhead.training.tasks.task import Task
from clearhead.training.trackers import Tracker, make_trackers

log = logging.getLogger(__name__)

# inside the model's folder: checkpoints and curves, and the token ids that were trained on
RUN, CORPUS = "run", "corpus"
_VALIDATION_BATCHES = 8
CPU_TOKENS, _CPU_ACCUMULATE = 2048, 2
_REPLACES = "replaces"  # a file that is in RUN until what was there before is replaced
_VOCABULARY = "vocabulary.json"  # what a vocabulary was learnt from; put in place last, so that one with it is whole
_CARD_DIGEST = "card.json"
_TRAINED = "## How it was trained"
_SHOWN = 5  # files of a corpus


class RunOptions(TypedDict, total=False):
    """How a run goes, whatever it trains."""

    device: str  # "cpu" unless named
    shard: bool  # see `training.loop`
    progress: Progress | None  # told how many bytes of the corpus, or of streamed data, are tokenised
    track: Sequence[str | Tracker]  # names of `TRACKERS`, or objects of your own that are told every row
    tensorboard: bool  # the same as "tensorboard" in `track`
    command: str | None  # what the card says the run was started with
    restart: bool  # begin anew where another run is, which goes when this one is ready to begin
    more: bool  # go on from a run that is over, where the settings are longer than its
    overwrite: bool  # whether what `out` holds, where that is no run, may go in the end


@dataclass(frozen=True, kw_only=True)
class FinetuneResult:
    """A fine-tuned model, how its run ended, and its metrics on the development data, with what they are made of."""

    model: Model
    result: TrainResult
    metrics: Metrics
    evaluated: Evaluated | None = None


Found = TypeVar("Found")
Examples = tuple[object, Sequence[Any] | StreamedExamples]  # the name of their file, and what was read from it


def fingerprint(
    recipe: Any,
    *,
    data: Mapping[str, Corpus | Examples],
    start: Mapping[str, Path | Model] | None = None,
    tokenizers: Sequence[Tokenizer],
    labels: Sequence[str] | None = None,
    **named: str,
) -> dict[str, Any]:
    """What makes a run the one it is, by names that a refusal can show; the loop adds the settings of training.

    Content is compared, not names: of examples as they were read, of a corpus and the models in `start` as stored, of
    tokenizers and labels in their order. `named` says what else tells two runs apart.
    """
    parts: dict[str, Any] = dict(named)
    for name, source in data.items():
        if isinstance(source, Corpus):
            parts |= _corpus_parts(source, name)
        else:
            file, examples = source
            told = {"name": f"{_listed(file)} ({len(examples):,} examples)", DIGEST: _examples_digest(examples)}
            parts[name] = told if examples else None
    if labels is not None:
        parts["the labels"] = list(labels)
    for name, model in (start or {}).items():
        parts[name] = {"name": str(model), DIGEST: _weights_digest(model)}
    for name, words in zip(("the tokenizer", "the tokenizer of the targets"), tokenizers, strict=False):
        capitals = " with capitals" if words.tells_capitals else ""
        parts[name] = {"name": f"{words.vocabulary:,} tokens{capitals}", DIGEST: words.digest + capitals}
    if (config := getattr(recipe, "model", None)) is not None:
        parts["the kind of model"] = type(config).__name__.removesuffix("Config")  # two may have the same sizes
    return parts | beside_training(recipe)


def _corpus_parts(corpus: Corpus, name: str = "the corpus") -> dict[str, Any]:
    found = zip(corpus.sources, corpus.digests, strict=True)
    parts = {f"file {i} of {name}": {"name": str(file), DIGEST: sha} for i, (file, sha) in enumerate(found, start=1)}
    return {**parts, f"the field of {name}": corpus.field}


def _listed(files: object) -> str:
    return ", ".join(map(str, files)) if isinstance(files, list | tuple) else str(files)


def _examples_digest(examples: Iterable[Any]) -> str:
    sha = hashlib.sha256()
    for example in examples:  # dataclasses of text, numbers and tuples, whose repr tells all
        sha.update(repr(example).encode("utf-8", "surrogatepass"))
    return sha.hexdigest()


def _weights_digest(model: Path | Model) -> str:
    if isinstance(model, Model):
        return digest({name: tensor.cpu().contiguous() for name, tensor in network_tensors(model.network).items()})
    files = [*sorted(model.glob("*.safetensors")), model / "config.json"]
    return hashlib.sha256("".join(map(file_digest, files)).encode()).hexdigest()


Recipe = TypeVar("Recipe", bound=Callable[..., Any])


def in_own_folder(start: str | None = None) -> Callable[[Recipe], Recipe]:
    """Let a recipe work in its `out` alone: no other run at the same time, and no model that was there before.

    `start` names the argument that training starts from, which is never trained into its own folder.
    """

    def decorate(recipe: Recipe) -> Recipe:
        signature = inspect.signature(recipe)

        @wraps(recipe)
        def call(*args: Any, **options: Any) -> Any:
            given = signature.bind(*args, **options).arguments
            out, source = Path(given["out"]), given.get(start or "")
            same = isinstance(source, str | Path) and Path(source).exists() and Path(source).resolve() == out.resolve()
            require(not same, f"{out} is the model that training starts from; choose another folder", BadInput)
            # without checkpoints nothing tells whose the model is that lies there
            resumed = bool(checkpoints(out / RUN)) or (is_run(out) and options.get("restart", False))
            check_free_folder(out, own=resumed, run=True, overwrite=options.get("overwrite", False))
            # joined before anything is prepared, so that each hears at once of another that ends
            with process_group(local_device(options.get("device", "cpu"))) as ranks:
                with claimed(out, run=True) if ranks.first else nullcontext():
                    if ranks.first and not resumed and options.get("overwrite", False):  # to be known when it goes on
                        write_text("", out / RUN / _REPLACES, overwrite=True)
                    made = recipe(*args, **options)
                ranks.wait()  # while the first measures and saves, the others are there to begin again with it
                return made

        return cast(Recipe, call)

    return decorate


def train_on_text(
    task: Task,
    model: Model,
    corpus: Corpus,
    out: Path,
    recipe: Any,
    *,
    batches: Callable[[Shards, str], BatchSource],
    start: Mapping[str, Path | Model] | None = None,
    beside: Mapping[str, Model] | None = None,
    measured: bool = True,
    settings: Settings | None = None,
    facts: Mapping[str, str] | None = None,
    base_model: str | None = None,
    **options: Unpack[RunOptions],
) -> TrainResult:
    """Tokenise the corpus, train the task in `out`, and save the model with its card; a stopped run goes on.

    `batches` makes those of a split, "train" or "validation", which is `measured`. `start` is where weights come from,
    `beside` the models that are saved in folders of these names in `out`. For `settings` see `run`, for `base_model`
    `save_with_card`; `facts` begin the card's table.
    """
    told = model.tokenizer.tells_capitals
    require(not told, "raw text is read without its capitals; begin with the model that looked at none")
    without_attention_dropout(task.network)
    # the networks are there already: what does not fit together has been said before a corpus is read
    made_of = cache(lambda: fingerprint(recipe, data={"the corpus": corpus}, start=start, tokenizers=[model.tokenizer]))
    if options.get("more") or (checkpoints(out / RUN) and not options.get("restart")):
        check_same(out / RUN, settings or recipe.train, made_of(), more=options.get("more", False))
    shards = tokenise_once(corpus, model.tokenizer, out / CORPUS, options.get("progress"))
    facts = {**(facts or {}), "corpus": corpus_fact(corpus, shards.tokens)}
    evaluate = None
    if measured:
        validation = batches(shards, "validation")
        evaluate = partial(validation_metrics, task, validation, options.get("device", "cpu"))
        facts["measured on"] = "text of the corpus that was held out"
    source = batches(shards, "train")
    result = run(task, source, recipe, out, made_of=made_of(), settings=settings, evaluate=evaluate, **options)
    if is_done(result):
        section = training_section(recipe, result, facts, last_metrics(out / RUN, result), options.get("command"))
        save_with_card(model, out, section, base_model=base_model)
        for name, other in (beside or {}).items():
            write_folder(other.checkpoint, out / name, own=True)
    check_measured(result, out)
    return result


def run(
    task: Task,
    source: BatchSource,
    recipe: Any,
    out: Path,
    *,
    made_of: Mapping[str, object],
    settings: Settings | None = None,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
    **options: Unpack[RunOptions],
) -> TrainResult:
    """Train in `out`, by `recipe.train` unless other settings are given; the network is left in evaluation mode.

    `made_of` is the run's `fingerprint`. What the last evaluation fails by is in the result: `check_measured` raises
    it, when the model is saved.
    """
    named = [*options.get("track", ()), *(["tensorboard"] if options.get("tensorboard") else [])]
    report = Report(out / RUN, trackers=make_trackers(named), config=values_of(recipe))
    result = train(
        task,
        source,
        settings or recipe.train,
        out / RUN,
        device=options.get("device", "cpu"),
        shard=options.get("shard", False),
        fingerprint=made_of,
        evaluate=evaluate,
        report=report,
        restart=options.get("restart", False),
        more=options.get("more", False),
        raise_failure=False,
    )
    task.network.eval()
    return result


def try_measuring(result: TrainResult, measure: Callable[[], Found]) -> tuple[Found | None, TrainResult]:
    """Measure a model when its run is over; what that fails by goes into the result, so that the model is saved."""
    if result.failure is not None:
        return None, result
    try:
        return measure(), result
    except Exception as error:
        return None, replace(result, failure=error)


def check_measured(result: TrainResult, out: Path) -> None:
    """Raise what the last evaluation failed by, and say that the model is there all the same.

    Not on other ranks than the first: torchrun would end that one while it saves.
    """
    if result.failure is None or not first_process():
        return
    told = f"the model is trained and saved in {out}, but measuring it failed"
    todo = f"measure it with clearhead evaluate --model {out}, or run the same command again, which will train nothing"
    if isinstance(result.failure, ClearheadError):
        raise BadInput(f"{told}: {str(result.failure).rstrip('.')}; {todo}") from result.failure
    result.failure.add_note(f"{told}; {todo}")
    raise result.failure


def is_done(result: TrainResult) -> bool:
    """Whether the run is over and this process is the one that saves what it made."""
    return result.exit != "interrupted" and first_process()


def validation_metrics(task: Task, validation: BatchSource, device: str) -> dict[str, float]:
    """Mean of each part of the loss on text never trained on, and the perplexity of the words that are asked for.

    Where a model reads both ways, that is of the mean loss; it depends on the tokenizer.
    """
    sums: dict[str, list[tuple[float, int]]] = {}
    for index in range(min(_VALIDATION_BATCHES, max(validation.batches_in(1), 1))):
        for part, loss in task.losses(validation.batch(index).to(device)).items():
            sums.setdefault(part, []).append((float(loss.total), int(loss.count)))
    means = {part: sum(total for total, _ in rows) / sum(n for _, n in rows) for part, rows in sums.items()}
    if "masked_lm" in sums:
        losses, counts = zip(*sums["masked_lm"], strict=True)
        return {**means, "perplexity": perplexity(losses, counts)}
    asked = [mean for part, mean in means.items() if part in ("next", "previous", "words")]
    # a student may learn relations alone
    return {**means, "perplexity": math.exp(sum(asked) / len(asked))} if asked else means


def learn_vocabulary_once(
    corpus: Corpus,
    out: Path,
    *,
    size: int,
    kind: str = "wordpiece",
    progress: Progress | None = None,
    restart: bool = False,
) -> Tokenizer:
    """Train a tokenizer on the corpus for a run in `out`; one learnt there from the same text is taken.

    BERT's kind and MPNet's make all letters small; the others keep them.
    """
    folder, made_of = out / CORPUS, {**_corpus_parts(corpus), "vocabulary": size, "the kind of tokenizer": kind}
    if first_process() and (found := compare(_learnt_from(folder), made_of)):
        if checkpoints(out / RUN) and not restart:
            refuse(out / RUN, found)
        small = kind in ("wordpiece", "mpnet")
        words = train_tokenizer(texts=corpus.documents(progress), kind=kind, vocabulary=size, lowercase=small)
        (folder / _VOCABULARY).unlink(missing_ok=True)  # it tells of what is replaced
        with staged(folder, own=True) as stage:
            words.write_files(stage)
            write_json(made_of, stage / _VOCABULARY)
    return wait_for_first(lambda: None if compare(_learnt_from(folder), made_of) else Tokenizer.from_folder(folder))


def _learnt_from(folder: Path) -> dict[str, Any]:
    try:
        return read_object(folder / _VOCABULARY)
    except NotFound:
        return {}


def tokenise_once(corpus: Corpus, tokenizer: Tokenizer, folder: Path, progress: Progress | None = None) -> Shards:
    """Tokenise the corpus into `folder`; shards of the same corpus and tokenizer that are there already are taken."""
    if first_process():
        return tokenise(corpus, tokenizer, folder, progress=progress).in_parts()
    return wait_for_first(lambda: find_shards(corpus, tokenizer, folder)).in_parts()


def for_device(recipe: Any, device: str) -> Any:
    """The recipe with smaller micro-batches, and two of them in a step at most, where a CPU trains.

    A step is not broken off when its minutes are over: with the default model, one core takes 8 seconds for 4,096
    tokens and a minute for 32,768. Of 1,024 tokens, about a third of the time would be the update itself.
    """
    if device != "cpu":
        return recipe
    few = replace(recipe.train, accumulate=min(recipe.train.accumulate, _CPU_ACCUMULATE))
    return replace(recipe, tokens=min(recipe.tokens, CPU_TOKENS), train=few)


def ends_averaged(settings: Settings) -> bool:
    """Whether a run ends with a mean of weights, which its loop cannot measure, and measures nothing else."""
    return settings.every.average > 1 and settings.every.evaluate == NEVER


def rounded_vocabulary(tokenizer: Tokenizer) -> int:
    """A multiple of 64, which keeps the output matrix aligned on a GPU; rows beyond the vocabulary are never used."""
    return -(-tokenizer.vocabulary // 64) * 64


def check_tokenizer(start: Path, own: Tokenizer, given: Tokenizer) -> None:
    """Refuse to go on from a model in `start` with a tokenizer that is not its own."""
    same = (own.digest, own.tells_capitals) == (given.digest, given.tells_capitals)
    require(same, f"{start} has another tokenizer than the one given; leave it out to go on with the model's own")


def check_fit(model: Model, length: int) -> None:
    """Refuse sequences that are longer than the model has positions."""
    longest = model.encoder.max_length
    require(length <= longest, f"sequences of {length} tokens do not fit {longest} positions; choose a smaller length")


def without_attention_dropout(network: nn.Module) -> None:
    """Train without dropout of attention weights, which the fast kernel for packed texts does not know.

    Dropout of hidden states, the other half of the pair, stays as the checkpoint says.
    """
    for module in network.modules():
        if isinstance(module, Attend):
            module.dropout = 0.0


def replaces(folder: Path) -> bool:
    """Whether a run was told to replace what its folder held before, which stays until the new model is there."""
    return (folder / RUN / _REPLACES).is_file()


def save_with_card(model: Model, folder: Path, section: str, *, base_model: str | None = None) -> None:
    """Save the model and, where there is none by hand, a README.md that says what it is and how it was trained.

    `base_model` is what training started from; a folder is no name for others, so that only the table tells it.
    """
    write_folder(model.checkpoint, folder, own=True, overwrite=replaces(folder))
    card = model_card(
        read_config(folder),
        name=folder.resolve().name,
        parameters=model.parameters,
        sentences=model.checkpoint.sentence is not None,
        base_model=None if base_model is None or Path(base_model).exists() else base_model,
        features=FeatureHead.of(model.network),
    )
    write_own_card(f"{card}\n{section}", folder)
    (folder / RUN / _REPLACES).unlink(missing_ok=True)


def write_own_card(card: str, folder: Path) -> None:
    """Write the card of a run in place of an earlier one of the folder's runs; one by hand stays."""
    path, note = folder / CARD, folder / RUN / _CARD_DIGEST
    if path.is_file() and note.is_file() and read_object(note).get(DIGEST) == file_digest(path):
        path.unlink()
    stays = path.is_file() and path.read_text(encoding="utf-8") != card
    if stays and _TRAINED in path.read_text(encoding="utf-8"):
        log.warning("%s was not written by this run and stays as it is; delete it to have it written anew", path)
    write_card(card, folder)
    if not stays and note.parent.is_dir():
        with staged(note.parent, own=True) as stage:
            write_json({DIGEST: file_digest(path)}, stage / note.name)


def training_section(
    recipe: Any,
    result: TrainResult,
    facts: Mapping[str, str],
    metrics: Mapping[str, float],
    command: str | None = None,
) -> str:
    """Write what a card says of training, in markdown; `facts` are rows such as "training data"."""
    length = f"{result.step:,} steps, {result.tokens:,} tokens, {result.elapsed / 60:,.2f} minutes ({result.exit})"
    before = {"went on from": "; then ".join(result.parts)} if result.parts else {}
    parts = [_table("training", "", {**facts, "length": length, **before, "seed": str(recipe.train.seed)})]
    numbers = {name: f"{value:,.3f}".rstrip("0").rstrip(".") for name, value in metrics.items()}
    parts.append(_table("figure", "value", numbers) if numbers else "It was not measured.")
    if command is not None:
        parts.append(f"```sh\n{command}\n```")
    parts.append(f"The recipe, as `--recipe` reads it:\n\n```toml\n{as_toml(recipe)}```")
    return f"{_TRAINED}\n\n" + "\n\n".join(parts) + "\n"


def last_metrics(folder: Path, result: TrainResult) -> dict[str, float]:
    """What a run measured on the weights that it ended with."""
    step = result.step if result.best_step is None else result.best_step
    found = [item for row in read_rows(folder) if row["step"] == step for item in row.items() if item[1] is not None]
    return {name.removeprefix(MEASURED): value for name, value in found if name.startswith(MEASURED)}


def corpus_fact(corpus: Corpus, tokens: int) -> str:
    """Name the files of a corpus, and how many tokens were made of them."""
    names = [str(source) for source in corpus.sources]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more} ({tokens:,} tokens)"


def _table(first: str, second: str, rows: Mapping[str, str]) -> str:
    lines = [(first, second), ("---", "---"), *rows.items()]
    cells = [[" ".join(text.replace("|", "\\|").split()) for text in line] for line in lines]
    return "\n".join(f"| {name} | {value} |" for name, value in cells)

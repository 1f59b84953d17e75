"""Translation: pairs of sentences to a model that turns one into the other: recurrent, Transformer, or a GPT."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from importlib.util import find_spec
from itertools import chain
from math import inf
from pathlib import Path
from shutil import copyfile
from typing import Any, Unpack

import torch

from clearhead.data.dataset import ShuffledBatches
from clearhead.data.encode import SEPARATOR, encode_instructions
from clearhead.data.examples import PairExample
from clearhead.data.rng import BatchSource
from clearhead.data.seq2seq import ParallelBatches, encode_parallel, read_parallel
from clearhead.errors import BadInput, NotFound, WrongTask, require, short
from clearhead.evaluation.perplexity import perplexity
from clearhead.evaluation.tasks import Metrics
from clearhead.evaluation.translation import bleu
from clearhead.hub.checkpoint import read_outline, recurrent_checkpoint, source_marks
from clearhead.hub.config import TASKS, is_recurrent
from clearhead.hub.remote import find
from clearhead.io import read_object, staged
from clearhead.models import GENERATORS, RECURRENT_FAMILIES, gpt
from clearhead.models.seq2seq import BUILD, Seq2SeqConfig
from clearhead.models.transformer import PRESETS, TransformerConfig
from clearhead.nn.decoder import EncoderDecoder
from clearhead.pipelines.model import Model, load
from clearhead.pipelines.translation import translate_texts
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.text.files import TARGETS
from clearhead.text.languages import Around, check_told, read_directions, tag
from clearhead.training.recipes.run import (
    RUN,
    FinetuneResult,
    RunOptions,
    check_measured,
    ends_averaged,
    fingerprint,
    in_own_folder,
    is_done,
    last_metrics,
    run,
    save_with_card,
    training_section,
    try_measuring,
)
from clearhead.training.settings import NEVER, Every, Settings
from clearhead.training.tasks.language import PromptedTranslation, Translation

# models that can be made anew, and their sizes
NEW: dict[str, Any] = {
    **{name: Seq2SeqConfig() for name in BUILD},
    **{f"transformer-{size}": config for size, config in PRESETS.items()},
    **{f"gpt-{size}": gpt.PRESETS[size] for size in ("mini", "small")},
}
MEASURED = ("perplexity", "accuracy")  # by the loop; BLEU takes longer, and comes in the end
_OR = " and ".join(MEASURED)
_WRITES_NOT = "has no head that writes; choose one for translation"
_PREFIXES = ("seq2seq-", "transformer-", "gpt-")  # what begins so is meant to be one of them, and no hub name


@dataclass(frozen=True, kw_only=True)
class Translate:
    """What can be set of a run; `recipe_for` makes one for a model."""

    model: Any  # the sizes of a new model; None for one that is loaded, which also has its own tokenizer
    tokenizer: str = "bpe"  # of a new model, one for both languages: bpe, unigram, wordpiece or word
    vocabulary: int = 8000  # tokens of it
    directions: tuple[str, ...] = ()  # of a new model of several, such as de-en, en-de: sources begin with >>en<<
    src_lang: str | None = None  # of a model of many languages: its code for the source,
    tgt_lang: str | None = None  # and of the translation
    length: int = 128  # longest sentence in tokens; the rest of a longer one is cut off
    tokens: int = 8192  # of a micro-batch, both languages together
    label_smoothing: float = 0.1  # share of the target that goes to the other tokens
    agreement: float = 0.0  # R-Drop's alpha, such as 5, for little data: two readings of each pair should say the same
    train: Settings = field(
        default_factory=lambda: Settings(
            epochs=10.0, learning_rate=1e-3, betas=(0.9, 0.98), every=Every(save=NEVER, evaluate=NEVER)
        )
    )

    def __post_init__(self) -> None:
        smoothing, weight = self.label_smoothing, self.agreement
        require(0 <= smoothing < 1, f"label_smoothing is a share in [0, 1), got {smoothing}")
        require(0 <= weight < inf, f"agreement is a weight of 0 or more, got {weight}; 5 is usual, 0 is none")
        read_directions(self.directions)
        for name in ("tokenizer", "vocabulary", "directions"):
            value = getattr(self, name)
            free = self.model is not None or value == getattr(type(self), name)
            require(free, f"{name}={value} is for a new model; one that is there has its own, so leave it out")


def recipe_for(model: str | Path) -> Translate:
    """Plan a run for a new model, by its name in NEW, or for one that is there."""
    near = get_close_matches(str(model), NEW, n=1, cutoff=0.8)
    meant = near or f"{model}-".startswith(_PREFIXES)
    if meant and str(model) not in NEW and not Path(model).exists():
        guess = f"did you mean {near[0]}? " if near else ""
        raise NotFound(f"there is no model {model!r}; {guess}New ones are {', '.join(NEW)}")
    plan = Translate(model=NEW.get(str(model)))
    if isinstance(plan.model, gpt.Gpt2Config):
        return replace(plan, tokenizer="gpt2")
    if not isinstance(plan.model, TransformerConfig):
        return plan
    # Vaswani et al. 2017, sections 5.3 and 6.1
    return replace(plan, train=replace(plan.train, schedule="noam", every=Every(save=200, evaluate=NEVER, average=5)))


@in_own_folder("model")
def translate(
    model: str | Path,
    data: Sequence[str | Path],
    out: Path,
    *,
    dev: Sequence[str | Path] | None = None,
    recipe: Translate | None = None,
    columns: Sequence[str | None] = (None, None),
    **options: Unpack[RunOptions],
) -> FinetuneResult:
    """Train `model` on parallel text and save it with its card in `out`; a run that was stopped there goes on.

    `model` is a new one by its name, such as "seq2seq-lstm-additive", or a folder or hub name to go on from. A GPT
    reads a source and a new line, and learns the target alone. `data` and `dev` are two files, or one table with
    `columns`; see `data.seq2seq`. For the rest see `recipes.run.RunOptions`.
    """
    recipe = recipe or recipe_for(model)
    metric = (recipe.train.metric or MEASURED[0]).removeprefix("-")
    require(metric in MEASURED, f"translation gives no {metric!r} for metric while it trains; it gives {_OR}")
    sets = _read(data, dev, columns)
    pairs, measured = sets["train"], sets.get("dev", [])
    torch.manual_seed(recipe.train.seed)
    translator = prepare(model, pairs, recipe)
    task = _task(translator, recipe)
    words = translator.tokenizer
    tokenizers = words, words if recipe.model is not None else Tokenizer.of_targets(find(model))
    evaluate = None
    if measured:
        evaluate = partial(
            _metrics, task, _batches(measured, translator, tokenizers, recipe), options.get("device", "cpu")
        )
    made_of = fingerprint(
        recipe,
        data={"the training data": (data, pairs), "the development data": (dev, measured)},
        start={"the starting model": find(model)} if recipe.model is None else None,
        tokenizers=tokenizers[: 2 if recipe.model is None else 1],
        **({} if recipe.model is None else {"the new model": str(model)}),
    )
    source = _batches(pairs, translator, tokenizers, recipe)
    in_loop = None if ends_averaged(recipe.train) else evaluate
    result = run(task, source, recipe, out, made_of=made_of, evaluate=in_loop, **options)
    if result.exit == "interrupted":
        return FinetuneResult(model=translator, result=result, metrics={})
    found: Metrics | None = {}
    if evaluate is not None:
        # of the very weights that the loop measured last, its figures are taken
        known = last_metrics(out / RUN, result) if recipe.train.every.average == 1 else {}
        found, result = try_measuring(result, lambda: (known or evaluate()) | _bleu(translator, measured, recipe))
    found = found or {}
    if is_done(result):
        facts = {"task": "translation", "training data": _named(data, pairs)}
        facts |= {"made from": str(model)} if recipe.model is None else {}
        facts |= {"measured on": _named(dev, measured)} if dev is not None else {}
        section = training_section(recipe, result, facts, found, options.get("command"))
        save_with_card(translator, out, section, base_model=str(model) if recipe.model is None else None)
        if recipe.model is None:
            _keep_targets(find(model), out)
    check_measured(result, out)
    return FinetuneResult(model=translator, result=result, metrics=found)


def first_look(
    model: str | Path,
    data: Sequence[str | Path],
    *,
    dev: Sequence[str | Path] | None = None,
    columns: Sequence[str | None] = (None, None),
) -> dict[str, list[PairExample]]:
    """Read the pairs of a run by "train" and "dev", and see whether its model can learn from them."""
    if str(model) not in NEW:
        _check_start(model)
    return _read(data, dev, columns)


def _task(translator: Model, recipe: Translate) -> Translation | PromptedTranslation:
    if not _prompted(translator):
        return Translation(translator.network, label_smoothing=recipe.label_smoothing, agreement=recipe.agreement)
    told = f"agreement={recipe.agreement} is for models that read a source beside what they write; leave it out"
    require(not recipe.agreement, told, BadInput)
    return PromptedTranslation(translator.network, label_smoothing=recipe.label_smoothing)


def _prompted(model: Model) -> bool:
    """Whether it is a decoder alone, which reads the source before what it writes."""
    return model.family not in RECURRENT_FAMILIES and not isinstance(model.encoder, EncoderDecoder)


def _read(
    data: Sequence[str | Path], dev: Sequence[str | Path] | None, columns: Sequence[str | None]
) -> dict[str, list[PairExample]]:
    first, second = columns
    sets = {"train": data} | ({} if dev is None else {"dev": dev})
    return {name: read_parallel(files, first=first, second=second) for name, files in sets.items()}


def prepare(model: str | Path, pairs: Sequence[PairExample], recipe: Translate) -> Model:
    """Make a new model with a tokenizer for both languages, or load one."""
    if recipe.model is None:
        loaded = load(_check_start(model))
        require(loaded.writes, f"{model} {_WRITES_NOT}", WrongTask)
        loaded = _told(loaded, recipe)
        return _with_suffix(loaded) if _prompted(loaded) else loaded
    if isinstance(recipe.model, gpt.Gpt2Config):
        return _new_gpt(recipe.model, pairs, recipe)
    tags = tuple(tag(target) for _, target in read_directions(recipe.directions))
    for pair in pairs if tags else ():
        told = f"{short(pair.first)} begins with none of {', '.join(dict.fromkeys(tags))}; say what to translate it to"
        require(pair.first.startswith(tags), told, BadInput)
    sources = (pair.first.partition("<<")[2].lstrip() if tags else pair.first for pair in pairs)
    texts = chain.from_iterable(zip(sources, (pair.second for pair in pairs), strict=True))
    tokenizer = train_tokenizer(texts=texts, kind=recipe.tokenizer, vocabulary=recipe.vocabulary, lowercase=False)
    tokenizer = tokenizer.with_directions(recipe.directions) if tags else tokenizer
    ids = {"vocab_size": tokenizer.vocabulary, "pad_token_id": tokenizer.pad_id, "eos_token_id": tokenizer.sep_id}
    config = replace(recipe.model, **ids)
    if isinstance(config, Seq2SeqConfig):
        config = replace(config, bos_token_id=tokenizer.cls_id)
        return Model(recurrent_checkpoint(str(model), RECURRENT_FAMILIES[str(model)].network(config), tokenizer))
    return Model.create(config, tokenizer, heads={"causal_lm": config.vocab_size})


def _new_gpt(config: gpt.Gpt2Config, pairs: Sequence[PairExample], recipe: Translate) -> Model:
    """A decoder alone with fresh weights, and a tokenizer of both languages that knows what stands between them."""
    require(recipe.tokenizer == "gpt2", f"a GPT has a tokenizer of kind gpt2, not {recipe.tokenizer}; leave it out")
    told = f"directions={list(recipe.directions)} are for models that read a source beside what they write"
    require(not recipe.directions, f"{told}; choose a transformer-… or leave them out")
    texts = (f"{pair.first}{SEPARATOR}{pair.second}" for pair in pairs)
    tokenizer = train_tokenizer(texts=texts, kind="gpt2", vocabulary=recipe.vocabulary)
    size, end = tokenizer.vocabulary, tokenizer.sep_id
    config = replace(config, vocab_size=size, bos_token_id=end, eos_token_id=end)
    return _with_suffix(Model.create(config, tokenizer, heads={"causal_lm": size}))


def _with_suffix(model: Model) -> Model:
    """A decoder whose config.json will say what stands between a text and its translation."""
    description = model.checkpoint.description
    tasks = description.extra.get(TASKS)
    told = {**(tasks if isinstance(tasks, dict) else {}), "translation": {"suffix": SEPARATOR}}
    return Model(replace(model.checkpoint, description=replace(description, extra={**description.extra, TASKS: told})))


def _told(model: Model, recipe: Translate) -> Model:
    """The model for the pair of languages that the recipe names, which it then is saved for."""
    languages, codes = model.tokenizer.languages, {"src_lang": recipe.src_lang, "tgt_lang": recipe.tgt_lang}
    if languages is None or languages.place == "target":
        check_told(**codes)
        return model
    told = "mBART's first models start with a language, which is not trained here; choose mBART-50"
    require(languages.place == "before", told, WrongTask)
    for name, code, known in zip(codes, codes.values(), (languages.source, languages.target), strict=True):
        some = ", ".join(sorted(languages.ids)[:3])
        told = f"this model knows {len(languages.ids)} languages; say which with --set {name}=CODE, such as {some}"
        require(code is not None or known is not None, told, BadInput)
        languages.id(code or known)
    return Model(replace(model.checkpoint, tokenizer=model.tokenizer.between(recipe.src_lang, recipe.tgt_lang)))


def _marks(model: Model) -> tuple[Around, Around] | None:
    """The ids round each side of a pair, as the model reads and writes them."""
    if model.family in RECURRENT_FAMILIES:
        return None
    body, words = model.encoder, model.tokenizer
    source, languages = source_marks(words, body), words.languages
    told = languages is not None and languages.place == "before"
    return source, source_marks(words, body, languages.target) if languages is not None and told else source


def _metrics(task: Translation | PromptedTranslation, source: BatchSource, device: str) -> Metrics:
    """Measure on validation pairs: perplexity, and how many words of the target are guessed right, in percent."""
    nll = right = count = 0.0
    with torch.no_grad():
        for index in range(source.batches_in(1)):
            metrics = task.losses(source.batch(index).to(device))["words"].metrics
            nll, right = nll + float(metrics["nll"][0]), right + float(metrics["accuracy"][0])
            count += float(metrics["nll"][1])
    return {"perplexity": perplexity([nll], [int(count)]), "accuracy": 100 * right / count}


def _bleu(translator: Model, pairs: Sequence[PairExample], recipe: Translate) -> Metrics:
    """Translate greedily and compare, if sacrebleu is there to do so."""
    if find_spec("sacrebleu") is None:
        return {}
    sources, references = [pair.first for pair in pairs], [pair.second for pair in pairs]
    most, suffix = recipe.length - 1, translator.translation_suffix
    if suffix:
        most = min(most, translator.encoder.max_length // 2)
    written = translate_texts(translator.network, translator.tokenizer, sources, max_tokens=most, suffix=suffix)
    return {"bleu": bleu(references, written).score}


def _check_start(model: str | Path) -> Path:
    """Find a folder whose model translates, by what config.json says of it."""
    folder = find(model)
    if is_recurrent(folder):
        kind = str(read_object(folder / "config.json")["model_type"])
        require(kind in BUILD, f"{model} is {kind}, which does not translate; choose a seq2seq model", WrongTask)
        return folder
    outline = read_outline(folder)
    require(outline.description.family in GENERATORS, f"{model} {_WRITES_NOT}", WrongTask)
    return folder


def _named(files: Sequence[str | Path], pairs: Sequence[PairExample]) -> str:
    return f"{', '.join(map(str, files))} ({len(pairs):,} pairs)"


def _keep_targets(folder: Path, out: Path) -> None:
    """Copy what OPUS-MT cuts its translations with, so that training can go on from `out` as well."""
    if (folder / TARGETS).is_file():
        with staged(out, own=True) as stage:
            for name in (TARGETS, "vocab.json"):
                copyfile(folder / name, stage / name)


def _batches(
    pairs: Sequence[PairExample], translator: Model, tokenizers: tuple[Tokenizer, Tokenizer], recipe: Translate
) -> BatchSource:
    words, targets = tokenizers
    if _prompted(translator):
        length = min(2 * recipe.length, translator.encoder.max_length)
        read = encode_instructions(pairs, words, length=length)
        return ShuffledBatches(read, seed=recipe.train.seed, tokens=recipe.tokens, grouped=True)
    encoded = encode_parallel(pairs, words, targets=targets, length=recipe.length, around=_marks(translator))
    return ParallelBatches(encoded, seed=recipe.train.seed, tokens=recipe.tokens)

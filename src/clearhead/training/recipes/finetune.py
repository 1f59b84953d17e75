"""Fine-tuning: a pre-trained model, a task's data, and a model for that task at the end."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from clearhead.data.dataset import ShuffledBatches, TokenizedDataset
from clearhead.data.examples import Labels
from clearhead.data.folds import split_fold
from clearhead.data.formats import join_documents
from clearhead.data.report import DatasetReport, check_known, describe, label_of
from clearhead.data.stream import StreamedExamples, find_tokenised, tokenise_to_disk
from clearhead.data.tags import scheme_of, scheme_of_labels
from clearhead.errors import BadInput, WrongTask, require
from clearhead.evaluation.tasks import Evaluated, Evaluation, Metrics
from clearhead.hub.checkpoint import Checkpoint, read_folder, read_outline
from clearhead.hub.config import is_recurrent
from clearhead.hub.remote import find
from clearhead.hub.skills import Skill, encoder_digest, load_skill, tell_capitals, write_skill
from clearhead.io import Progress, read_object
from clearhead.models.seq2seq import BUILD
from clearhead.nn.heads import SentenceVector
from clearhead.nn.lora import LoRA, add_lora, remove_lora
from clearhead.pipelines.classification import Classes
from clearhead.pipelines.model import Model, load
from clearhead.text import Tokenizer
from clearhead.training.distributed import first_process, wait_for_first
from clearhead.training.loop import TrainResult
from clearhead.training.rates import RateSweep, sweep_learning_rates
from clearhead.training.recipes.frozen import FEATURES, Frozen, on_features, with_frozen
from clearhead.training.recipes.run import (
    CORPUS,
    RUN,
    FinetuneResult,
    RunOptions,
    check_measured,
    ends_averaged,
    fingerprint,
    in_own_folder,
    is_done,
    replaces,
    run,
    save_with_card,
    training_section,
    try_measuring,
    without_attention_dropout,
    write_own_card,
)
from clearhead.training.recipes.task_specs import READERS, TASK_SPECS, Columns, ObjectiveOptions, Reader, TaskSpec
from clearhead.training.settings import NEVER, Every, Settings
from clearhead.training.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Finetune:
    """What can be set of a fine-tuning run; the defaults are BERT's, with three epochs."""

    length: int = 256  # longest input in tokens; answers and tags use windows of it
    items: int = 32  # examples of a batch
    documents: bool = False  # tag: learn and measure on whole documents, as a CoNLL file parts them
    capitals: bool = False  # look at capitals, which an uncased tokenizer does not tell
    lora: int | None = None  # rank of LoRA adapters; None trains everything
    dropout: float | None = None  # of hidden states; None keeps the model's own
    frozen: Frozen | None = None  # learn a head alone, on features of the encoder; None trains the encoder too
    objective: ObjectiveOptions = field(default_factory=ObjectiveOptions)
    train: Settings = field(
        default_factory=lambda: Settings(epochs=3.0, learning_rate=5e-5, every=Every(save=NEVER, evaluate=NEVER))
    )

    def __post_init__(self) -> None:
        for name, usual in (("items", "16 or 32"), ("length", "128 or 256")):
            value = getattr(self, name)
            require(value >= 1, f"{name} must be at least 1, got {value}; {usual} is usual")


def feature_extraction() -> Finetune:
    """The usual recipe of a head on a frozen encoder: more and longer steps, since they cost next to nothing."""
    return Finetune(frozen=Frozen(), train=replace(Finetune().train, epochs=10.0, learning_rate=3e-3))


@in_own_folder("source")
def finetune(
    task: str | TaskSpec,
    source: str | Path,
    data: Path | str,
    out: Path,
    *,
    dev: Path | str | None = None,
    recipe: Finetune | None = None,
    columns: Columns | None = None,
    skill: str | Path | None = None,
    skill_for: Sequence[str] | None = None,
    teacher: str | Path | None = None,
    allow_unknown_labels: bool = False,
    fold: tuple[int, int] | None = None,
    stream: bool = False,
    features: Path | None = None,
    **options: Unpack[RunOptions],
) -> FinetuneResult:
    """Fine-tune the model `source` on `data` and save it with its card in `out`; a run stopped there goes on.

    The `task` is one of `TASK_SPECS` by its name, or a `TaskSpec` of your own.
    With `skill_for` (uses such as "classify", or none) adapters and head are saved alone, as a skill of `source`. With
    `skill` training begins with one that it has, by name or folder; its head is kept where the labels are the same.
    `teacher` is for classify a model whose probabilities are learnt beside the labels, and for similar one whose
    vectors are, or a .npy file of them in the order of the texts.
    Labels of `dev` that `data` has not are refused, or count as wrong. A `fold` such as (0, 5), the first of five parts
    of `data`, takes the place of `dev` and is not learnt from. With `stream`, `data` may be larger than the memory: it
    is read a block at a time, and its tokens lie in `out`. `features` is where those of a frozen encoder are kept, by
    default with the run. For the rest see `recipes.run.RunOptions`.
    """
    recipe, spec = recipe or Finetune(), find_task(task)
    alone = skill_for is None or spec.name != "summarise"
    require(alone, "a summariser is a model of its own, not a skill", BadInput)
    skilled = skill_for is None or recipe.lora is not None
    require(skilled, "a skill is made of LoRA adapters; set their rank, such as lora=8")
    own = f"a skill has a head that the families have; the task {spec.name} brings its own, so that it is no skill"
    require(skill_for is None or spec.module is None, own, WrongTask)
    ready = _prepare(
        *(spec, source, data, recipe),
        dev=dev,
        columns=columns,
        skill=skill,
        teacher=teacher,
        allow_unknown_labels=allow_unknown_labels,
        fold=fold,
        stream=out / CORPUS / "examples" if stream else None,
        features=features or out / RUN / FEATURES,
        device=options.get("device"),
        progress=options.get("progress"),
    )
    model, batches, validation = ready.model, ready.batches, ready.validation
    dev = dev if fold is None else f"{data}, fold {fold[0] + 1} of {fold[1]}"
    measure = Measuring(spec.evaluation, model, validation, allow_unknown=allow_unknown_labels) if validation else None
    result = run(
        ready.task,
        batches,
        recipe,
        out,
        made_of=ready.made_of,
        settings=_evaluate_each_epoch(recipe.train, batches),
        evaluate=None if ends_averaged(recipe.train) else measure,
        **options,
    )
    done = is_done(result)
    if skill_for is not None and done:
        _save_skill(model, out, spec.head, skill_for)
        remove_lora(model.network)
        model = Model(load_skill(ready.start, out))  # as it will be read again
    else:
        remove_lora(model.network, merge=True)  # so that the folder is an ordinary one
    evaluated = None
    if measure is not None and done:
        evaluated, result = try_measuring(result, partial(measure.of_final, model, result, recipe.train))
    if done:
        facts = {"task": spec.name, "made from": str(source), "training data": f"{data} ({ready.examples:,} examples)"}
        if skill is not None:
            facts["made from"] += f" with its skill {skill}"
        if validation:
            facts["measured on"] = f"{dev} ({len(validation):,} examples)"
        if spec.tags_words:
            facts["tags"] = _TAGS[scheme_of_labels(model.labels or ())]
        figures = {} if evaluated is None else evaluated.named()
        section = training_section(recipe, result, facts, figures, options.get("command"))
        if skill_for is None:
            save_with_card(model, out, section, base_model=str(source))
        else:
            write_own_card(section, out)
    check_measured(result, out)
    metrics = {} if evaluated is None else evaluated.metrics
    return FinetuneResult(model=model, result=result, metrics=metrics, evaluated=evaluated)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that a fine-tuning run is made of, before its first step."""

    task: Task
    model: Model
    start: Checkpoint
    batches: ShuffledBatches
    validation: Sequence[Any]
    made_of: Mapping[str, object]  # see `recipes.run.fingerprint`
    examples: int  # of the training data


def _prepare(
    spec: TaskSpec,
    source: str | Path,
    data: Path | str,
    recipe: Finetune,
    *,
    dev: Path | str | None = None,
    columns: Columns | None = None,
    skill: str | Path | None = None,
    teacher: str | Path | None = None,
    allow_unknown_labels: bool = False,
    fold: tuple[int, int] | None = None,
    stream: Path | None = None,
    features: Path,
    device: str | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Read and tokenise the data, and put the task's head, and adapters, on the model.

    `stream` is the folder for the tokens of data that is read a block at a time, `features` the file for those of a
    frozen encoder.
    """
    bare = recipe.lora is None and skill is None and not recipe.capitals
    require(recipe.frozen is None or bare, "a frozen encoder stays as it is; leave lora, skill and capitals out")
    held = fold is None and teacher is None and recipe.frozen is None
    told = "streamed data is not held, for --folds, for a --teacher or for --frozen; leave --stream or these out"
    require(stream is None or held, told, BadInput)
    examples = _read(spec, data, dev, recipe, columns, fold=fold, stream=stream is not None)
    training, validation = examples["train"], list(examples.get("dev", []))
    dev = dev if fold is None else f"{data}, fold {fold[0] + 1} of {fold[1]}"
    labels = _check(spec, training, validation, (data, dev), recipe, allow_unknown_labels=allow_unknown_labels)
    torch.manual_seed(recipe.train.seed)  # a new head, and adapters, are drawn
    start = _open(source, spec, read_folder)
    begun = start if skill is None else _with_skill(start, source, skill, spec, recipe)
    model = spec.prepare(Model(tell_capitals(begun) if recipe.capitals else begun), labels, training)
    if skill is not None:
        _keep_head(model, begun, spec.head)
    made_of = fingerprint(
        recipe,
        data={"the training data": (data, training), "the development data": (dev, validation)},
        start={"the starting model": find(source)} | ({} if skill is None else {"the starting skill": Model(begun)}),
        tokenizers=[model.tokenizer],
        labels=None if labels is None else labels.names,
        **{"the task": spec.name} | ({} if teacher is None else {"the teacher": str(teacher)}),
    )
    without_attention_dropout(model.network)
    if recipe.dropout is not None:
        _set_dropout(model, recipe.dropout)
    length = min(recipe.length, model.encoder.max_length)
    if stream is None:
        encoded = spec.encode(list(training), model.tokenizer, labels, length)
    else:
        encoded = _tokenised(spec, training, model.tokenizer, labels, length, stream, made_of, progress)
    if teacher is not None:
        taught = _taught(teacher, spec, list(training), encoded, model, device)
        encoded = replace(encoded, targets={**encoded.targets, "teacher": taught})
    learner = model
    if recipe.frozen is not None:
        model = with_frozen(model, spec.head, recipe.frozen, recipe.dropout)
        learner, encoded = on_features(model, encoded, features, device=device or "cpu", progress=progress)
    elif recipe.lora is None:
        remove_lora(model.encoder, merge=True)  # those of a skill, where all is trained
    else:
        _add_adapters(model, recipe.lora, spec.head)
    return Prepared(
        task=spec.task(learner, encoded, recipe.objective),
        model=model,
        start=start,
        batches=ShuffledBatches(encoded, seed=recipe.train.seed, items=recipe.items),
        validation=validation,
        made_of=made_of,
        examples=len(training),
    )


def _tokenised(
    spec: TaskSpec,
    examples: Any,
    tokenizer: Tokenizer,
    labels: Labels | None,
    length: int,
    folder: Path,
    made_of: Mapping[str, Any],
    progress: Progress | None,
) -> TokenizedDataset:
    """Tokenise streamed examples into `folder`; what is there already of the same is taken."""
    names = ("the training data", "the tokenizer", "the labels", "the task")
    identity = {**{name: made_of.get(name) for name in names}, "length": length}
    found = find_tokenised(folder, identity)
    if found is not None:
        if progress is not None:
            progress(Path(str(examples.source)).stat().st_size)
        return found
    if first_process():
        encode = partial(spec.encode, tokenizer=tokenizer, labels=labels, length=length)
        return tokenise_to_disk(examples, encode, folder, identity, progress)
    return wait_for_first(lambda: find_tokenised(folder, identity))


def learning_rates(
    task: str | TaskSpec,
    source: str | Path,
    data: Path | str,
    *,
    recipe: Finetune | None = None,
    columns: Columns | None = None,
    skill: str | Path | None = None,
    teacher: str | Path | None = None,
    features: Path | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> RateSweep:
    """Try learning rates from small to large on the first batches of a run, which is not begun, and suggest one.

    `features` is where those of a frozen encoder are kept, for the run.
    """
    recipe, spec = recipe or Finetune(), find_task(task)
    # nothing is measured: a metric would ask for development data
    plan = replace(recipe, train=replace(recipe.train, metric=None, patience=None))
    with TemporaryDirectory() as scratch:
        ready = _prepare(
            *(spec, source, data, plan),
            columns=columns,
            skill=skill,
            teacher=teacher,
            features=features or Path(scratch) / FEATURES,
            device=device,
        )
        return sweep_learning_rates(ready.task, ready.batches, plan.train, device=device, progress=progress)


def _taught(
    teacher: str | Path,
    spec: TaskSpec,
    examples: Sequence[Any],
    encoded: TokenizedDataset,
    model: Model,
    device: str | None,
) -> NDArray[Any]:
    """What a teacher says of the examples: of texts its classes, (E, L), of pairs its vectors, (E, texts, D)."""
    known = spec.name in ("similar", "classify")
    require(known, f"--teacher is for classify and similar, not for {spec.name}; leave it out", BadInput)
    if spec.name == "classify":
        return _classes_of(teacher, examples, model.labels or (), device)
    taught = _vectors_of(teacher, examples, encoded, device)
    widths = taught.shape[-1], model.encoder.width
    told = f"the teacher's vectors have {widths[0]} numbers, the model's {widths[1]}"
    require(widths[0] == widths[1], f"{told}; choose two of one width", BadInput)
    return taught


def _classes_of(
    teacher: str | Path, examples: Sequence[Any], labels: Sequence[str], device: str | None
) -> NDArray[Any]:
    """The log-probabilities that a teacher gives to the labels of the data, (E, L)."""
    model = load(teacher, device=device or "cpu", dtype="float32")
    pairs = examples[0].pair is not None
    own = model.able("compare" if pairs else "classify").labels or ()
    told = f"the teacher tells {', '.join(own) or 'no classes'} apart, the data {', '.join(labels)}"
    require(set(own) == set(labels), f"{told}; choose a teacher that was fine-tuned for these labels", BadInput)
    texts: list[Any] = [(one.text, one.pair) if pairs else one.text for one in examples]
    found: list[Classes] = model.able("compare" if pairs else "classify").classify(texts)
    scores = np.array([[one.scores[label] for label in labels] for one in found], np.float32)
    return np.log(np.maximum(scores, np.finfo(np.float32).tiny))


def _vectors_of(
    teacher: str | Path, examples: Sequence[Any], encoded: TokenizedDataset, device: str | None
) -> NDArray[Any]:
    """The vectors that a teacher gives to all texts of the examples, (E, texts, D)."""
    require("similarity" not in encoded.targets, "these pairs have scores, which take the place of a teacher", BadInput)
    items, texts = encoded.members.shape
    if str(teacher).endswith(".npy"):
        try:
            vectors: NDArray[Any] = np.load(teacher, mmap_mode="r")  # may be larger than the memory
        except (OSError, ValueError) as error:
            raise BadInput(f"the vectors {teacher} cannot be read ({error}); write them with embed --out") from None
        told = f"{teacher} has {len(vectors):,} vectors for {items * texts:,} texts"
        require(len(vectors) == items * texts, f"{told}; make it of this data", BadInput)
    else:
        half = device is not None and device.startswith("cuda")
        model = load(teacher, device=device or "cpu", dtype="float16" if half else "float32")
        rows = ((one.first, one.second, one.negative)[:texts] for one in examples)
        vectors = model.embed([str(text) for row in rows for text in row], normalise=True).astype(np.float16)
    return vectors.reshape(items, texts, -1)


_TAGS = {
    "plain": "plain: one for each word, measured by accuracy",
    "IOB2": "IOB2: entities, measured by F1 of spans",
    "IOBES": "IOBES: entities, measured by F1 of spans",
}


class Measuring:
    """Measures a model on its development data, and keeps what was found for the weights that a run ends with."""

    def __init__(self, evaluation: Evaluation, model: Model, examples: Sequence[Any], *, allow_unknown: bool) -> None:
        self._measure = partial(evaluation, allow_unknown=allow_unknown)
        self._model, self._examples = model, examples
        self._found: list[Evaluated] = []

    def __call__(self) -> Metrics:
        """The metrics of the weights as they are now."""
        self._found.append(replace(self._measure(self._model, self._examples), predictions=()))
        return self._found[-1].metrics

    def of_final(self, model: Model, result: TrainResult, settings: Settings) -> Evaluated:
        """Of the weights that the run ended with; they are measured again only where that was in another session."""
        name = None if settings.metric is None else settings.metric.removeprefix("-")
        found = [one for one in reversed(self._found) if name is None or one.metrics[name] == result.best]
        return found[0] if found and settings.every.average == 1 else self._measure(model, self._examples)


def first_look(
    task: str | TaskSpec,
    source: str | Path,
    data: Path | str,
    *,
    dev: Path | str | None = None,
    recipe: Finetune | None = None,
    columns: Columns | None = None,
    skill: str | Path | None = None,
) -> DatasetReport:
    """Look at the data as a run would see it, before anything is spent."""
    plan, spec = recipe or Finetune(), find_task(task)
    examples: dict[str, Sequence[Any]] = {
        name: list(found) for name, found in _read(spec, data, dev, plan, columns).items()
    }
    outline = _open(source, spec, read_outline if skill is None else read_folder)
    if skill is not None:
        outline = _with_skill(outline, source, skill, spec, plan)
    model = Model(tell_capitals(outline) if plan.capitals else outline)
    return describe(examples, model.tokenizer, length=min(plan.length, model.encoder.max_length))


def over_seeds(rows: Sequence[Metrics]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of every metric, over the runs of several seeds or folds."""
    require(len(rows) > 0, "no seeds given; name at least one", BadInput)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        name: (statistics.fmean(column), statistics.stdev(column) if len(rows) > 1 else math.nan)
        for name, column in columns.items()
    }


def with_seed(recipe: Any, seed: int) -> Any:
    """The same recipe, of whatever kind, under another seed."""
    return replace(recipe, train=replace(recipe.train, seed=seed))


def find_task(name: str | TaskSpec) -> TaskSpec:
    """Look a task up by its name; one that is given itself is taken."""
    if isinstance(name, TaskSpec):
        return name
    known = ", ".join(TASK_SPECS)
    require(name in TASK_SPECS, f"there is no task {name!r}; choose one of {known}, translation", BadInput)
    return TASK_SPECS[name]


def find_reader(name: str) -> Reader:
    """Look up how the data of a task is read; also of search, which is measured but not trained."""
    known = ", ".join([*READERS, "translation", "summaries", "perplexity"])
    require(name in READERS, f"there is no task {name!r}; choose one of {known}", BadInput)
    return READERS[name]


def _open(source: str | Path, spec: TaskSpec, read: Callable[[Path], Checkpoint]) -> Checkpoint:
    """Read the model to begin with; its skills, if it has any, are not what is trained."""
    folder = find(source)
    if is_recurrent(folder):
        raise WrongTask(_from_before(str(source), str(read_object(folder / "config.json")["model_type"])))
    found = read(folder)
    _check_capitals(found, spec, str(source))
    return found


def _from_before(source: str, family: str) -> str:
    """Why a recurrent model is not fine-tuned for a task, and what it is for."""
    if family in BUILD:
        return f"{source} is from before the Transformer; it learns translation"
    hint = "; clearhead embed --layers 0,1,2 gives its vectors" if family == "elmo" else ""
    return f"{source} is {family}, from before the Transformer, and learns no task{hint}"


def _with_skill(
    start: Checkpoint, source: str | Path, skill: str | Path, spec: TaskSpec, recipe: Finetune
) -> Checkpoint:
    """The model to begin with, with one of its skills to go on from."""
    found = Model(start, find(source)).skill(skill).checkpoint
    _check_capitals(found, spec, f"the skill {skill}")
    most = max((len(part.down) for part in found.network.modules() if isinstance(part, LoRA)), default=0)
    held = recipe.lora is None or recipe.lora >= most
    require(held, f"the skill {skill} has the rank {most}, which lora={recipe.lora} cannot hold; set lora={most}")
    return found


def _check_capitals(found: Checkpoint, spec: TaskSpec, name: str) -> None:
    fits = spec.capitals or not Model(found).tokenizer.tells_capitals
    require(
        fits, f"{name} looks at capitals, which {spec.name} does not; begin with the model it was made of", BadInput
    )


def _keep_head(model: Model, learnt: Checkpoint, head: str | None) -> None:
    """Go on with a skill's own head where it tells the same labels apart; else one is learnt anew."""
    if head is not None and head in learnt.network.heads and model.labels == learnt.description.labels:
        model.network.heads[head].load_state_dict(learnt.network.heads[head].state_dict())


def _read(
    spec: TaskSpec,
    data: Path | str,
    dev: Path | str | None,
    recipe: Finetune,
    columns: Columns | None,
    *,
    fold: tuple[int, int] | None = None,
    stream: bool = False,
) -> dict[str, Sequence[Any] | StreamedExamples]:
    """Read the examples by "train" and "dev", once the recipe is known to fit the task."""
    require(fold is None or dev is None, f"a fold is measured on its part of {data}; leave --dev {dev} out", BadInput)
    require(not recipe.documents or spec.tags_words, "documents=true is for the task tag; leave it out", BadInput)
    telling = ", ".join(name for name, one in TASK_SPECS.items() if one.capitals)
    require(not recipe.capitals or spec.capitals, f"capitals=true is for {telling}; leave it out", BadInput)
    for name, value in asdict(recipe.objective).items():
        require(not value or name in spec.options, f"objective.{name} is not for the task {spec.name}; leave it out")
    metric = recipe.train.metric
    require(
        metric is None or dev is not None or fold is not None,
        f"metric {metric!r} is measured on development data; give --dev",
    )
    files = {"train": data} | ({} if dev is None else {"dev": dev})
    if stream:
        streaming = ", ".join(name for name, one in TASK_SPECS.items() if one.streams)
        require(spec.streams, f"{spec.name} is not streamed; {streaming} are", BadInput)
    join = join_documents if recipe.documents else list
    found: dict[str, Sequence[Any] | StreamedExamples] = {
        name: StreamedExamples(file, lambda block: spec.read(block, columns or {}))
        if stream and name == "train"
        else join(spec.read(file, columns or {}))
        for name, file in files.items()
    }
    if fold is None:
        return found
    training, validation = split_fold(list(found["train"]), *fold, recipe.train.seed)
    return {"train": training, "dev": validation}


def _check(
    spec: TaskSpec,
    training: Sequence[Any] | StreamedExamples,
    validation: Sequence[Any],
    files: tuple[Path | str, Path | str | None],
    recipe: Finetune,
    *,
    allow_unknown_labels: bool,
) -> Labels | None:
    """Find the labels, and whatever could not be learnt or measured, before the first step."""
    data, dev = files
    _check_labels(training, data, needed=spec.labelled)  # pairs and texts teach by themselves
    _check_labels(validation, dev, needed=dev is not None and (spec.labelled or spec.head is None))
    labels = spec.labels(training)
    if not validation:
        return labels
    if spec.tags_words:
        first, second = (scheme_of(list(examples)) == "plain" for examples in (training, validation))
        one, other = ("plain tags", "entities (B-, I-)")[:: 1 if first else -1]
        require(first == second, f"{data} has {one}, {dev} has {other}; give data of one kind", BadInput)
    if labels is not None and spec.labelled:
        check_known(validation, labels.names, f"the training data {data}", allow=allow_unknown_labels)
    try:
        found = spec.evaluation.rehearse(validation, None if labels is None else labels.names).metrics
    except BadInput as error:
        raise BadInput(f"{dev} is nothing to measure on: {error}") from None
    name = (recipe.train.metric or next(iter(found))).removeprefix("-")
    require(name in found, f"the task {spec.name} gives no {name!r} for metric; it gives {', '.join(found)}")
    constant = f"{dev} has one and the same score everywhere, so that no correlation is defined"
    require(not math.isnan(found[name]), f"{constant}; give data with others", BadInput)
    return labels


def _check_labels(examples: Iterable[Any], data: Path | str | None, *, needed: bool) -> None:
    labelled = not needed or any(label_of(example) is not None for example in examples)
    require(labelled, f"{data} has no right answers; give data with labels, or name their column (--label)", BadInput)


def _evaluate_each_epoch(settings: Settings, batches: ShuffledBatches) -> Settings:
    """With a metric, measure after each epoch, unless the recipe says when."""
    if settings.metric is None or settings.every.evaluate != NEVER:
        return settings
    epoch = math.ceil(batches.batches_in(1) / settings.accumulate)
    return replace(settings, every=replace(settings.every, evaluate=epoch))


def _set_dropout(model: Model, rate: float) -> None:
    require(0 <= rate < 1, f"dropout is a share in [0, 1), got {rate}")
    for part in model.network.modules():
        if isinstance(part, nn.Dropout):
            part.p = rate


def _add_adapters(model: Model, rank: int, head: str | None) -> None:
    """Adapters that begin as those of a skill, where the model has one, with room for more."""
    model.network.requires_grad_(False)
    learnt = {name: part for name, part in model.encoder.named_modules() if isinstance(part, LoRA)}
    remove_lora(model.encoder)
    add_lora(model.encoder, ["qkv", "output", "up", "down"], rank)
    with torch.no_grad():
        for name, old in learnt.items():
            new = model.encoder.get_submodule(name)
            require(isinstance(new, LoRA), f"the skill adapts {name}, which is not learnt; train it again", BadInput)
            new.down[: len(old.down)] = old.down
            new.up[:, : len(old.down)] = old.up * old.scale
    if model.tokenizer.tells_capitals:
        model.encoder.embeddings.capital.requires_grad_(True)
    if head is not None:
        model.network.heads[head].requires_grad_(True)


def _save_skill(model: Model, folder: Path, head: str | None, uses: Sequence[str]) -> None:
    vector = model.checkpoint.sentence or SentenceVector("mean")
    layer = None if head is None else model.network.heads[head].get_parameter("classifier.weight")
    (scale,) = {module.scale for module in model.network.modules() if isinstance(module, LoRA)}
    described = Skill(
        encoder=encoder_digest(model.encoder),
        uses=tuple(uses),
        head=head,
        outputs=0 if layer is None else layer.shape[0],
        labels=model.labels,
        problem=model.checkpoint.description.problem,
        pooling=vector.pooling if head is None else None,
        scale=scale,
        whole_words=head == "tags",
    )
    write_skill(described, model.network, folder, overwrite=replaces(folder))

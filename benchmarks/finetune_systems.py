"""One fine-tuning run of one system, for finetune_peer.py: clearhead's recipe or the transformers Trainer.

Both see the same token ids and labels, made by clearhead's readers, and are scored from their saved folders by the same
code. The argument is a `Run` as JSON; the last line of the output is its result.
"""

import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.data.dataset import TokenizedDataset
from clearhead.data.examples import Labels
from clearhead.evaluation.tasks import EVALUATIONS
from clearhead.text import Tokenizer
from clearhead.training.recipes.finetune import Finetune, finetune
from clearhead.training.recipes.run import RUN
from clearhead.training.recipes.task_specs import TASK_SPECS
from clearhead.training.settings import Every, Settings, override

NEVER = 10**9


@dataclass(frozen=True)
class Task:
    """Data files and what both systems are told; `metrics` are the figures that the tables show."""

    kind: str
    train: str
    tests: dict[str, str]
    epochs: int
    learning_rate: float
    metrics: tuple[str, ...]
    length: int = 256
    items: int = 32


def glue(kind: str, name: str, epochs: int, learning_rate: float, metric: str) -> Task:
    return Task(kind, f"glue/{name}/train.tsv", {"dev": f"glue/{name}/dev.tsv"}, epochs, learning_rate, (metric,))


CONLL = {"dev": "conll2003/eng.testa", "test": "conll2003/eng.testb"}
SQUAD = {"dev": "squad/dev-v1.1.json"}
TASKS = {
    "SST-2": glue("classify", "SST-2", 2, 1e-4, "accuracy"),
    "CoLA": glue("classify", "CoLA", 4, 2e-4, "matthews"),
    "MRPC": glue("classify", "MRPC", 5, 2e-4, "f1"),
    "STS-B": glue("regress", "STS-B", 5, 2e-4, "spearman"),
    "RTE": glue("classify", "RTE", 6, 2e-4, "accuracy"),
    "CoNLL-2003": Task("tag", "conll2003/eng.train", CONLL, 4, 2e-4, ("f1",)),
    "SQuAD 1.1": Task("answer", "squad/train-v1.1.json", SQUAD, 2, 2e-4, ("exact_match", "f1"), length=384, items=64),
}


@dataclass(frozen=True)
class Run:
    """With `steps`, that many are timed after `warm` others and nothing is scored; else all epochs are trained."""

    task: str
    system: str
    seed: int
    model: str
    data: str
    device: str
    limit: int | None = None  # rows of every data file; None reads all
    steps: int | None = None
    warm: int = 50
    changes: dict[str, Any] = field(default_factory=dict)  # of clearhead's recipe, by dotted names


@dataclass(frozen=True)
class Trained:
    """What training took; in a timed run, only the steps after the warm-up."""

    steps: int
    tokens: int  # without padding
    seconds: float


def ours(run: Run, task: Task, data: Path, folder: Path) -> Trained:
    total = None if run.steps is None else run.warm + run.steps
    settings = Settings(
        steps=total,
        epochs=task.epochs if total is None else None,
        learning_rate=task.learning_rate,
        precision="bf16" if run.device == "cuda" else "fp32",
        seed=run.seed,
        every=Every(log=run.warm, save=NEVER, evaluate=NEVER),
    )
    recipe = override(Finetune(length=task.length, items=task.items, train=settings), run.changes)
    finetune(task.kind, run.model, data, folder, recipe=recipe, device=run.device)
    rows = [json.loads(line) for line in (folder / RUN / "metrics.jsonl").read_text().splitlines()]
    before = rows[0] if run.steps else {"step": 0, "tokens": 0, "elapsed": 0.0}
    return Trained(*(rows[-1][name] - before[name] for name in ("step", "tokens", "elapsed")))


def theirs(run: Run, task: Task, data: Path, folder: Path) -> Trained:
    import transformers as hf

    kind = TASK_SPECS[task.kind]
    examples = kind.read(data, {})
    labels = kind.labels(examples)
    encoded = kind.encode(examples, Tokenizer.from_folder(Path(run.model)), labels, task.length)
    hf.set_seed(run.seed)  # a new head is drawn
    model = their_model(task.kind, run.model, labels)
    tokenizer = hf.AutoTokenizer.from_pretrained(run.model)
    pad = (hf.DataCollatorForTokenClassification if task.kind == "tag" else hf.DataCollatorWithPadding)(tokenizer)
    tokens: list[int] = []  # of each batch, without padding

    def collate(rows: list[dict[str, Any]]) -> Any:
        tokens.append(sum(len(row["input_ids"]) for row in rows))
        return pad(rows)

    total = -1 if run.steps is None else run.warm + run.steps

    class Clock(hf.TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            self.times = {0: time.perf_counter()}

        def on_step_end(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            if state.global_step in (run.warm, state.max_steps):
                if run.device == "cuda":
                    torch.cuda.synchronize()
                self.times[state.global_step] = time.perf_counter()

    # what Settings says, in their words
    plan = hf.TrainingArguments(
        output_dir=str(folder / RUN),
        num_train_epochs=task.epochs,
        max_steps=total,
        per_device_train_batch_size=task.items,
        learning_rate=task.learning_rate,
        weight_decay=0.01,
        max_grad_norm=1.0,
        lr_scheduler_type="linear",
        warmup_steps=0.1,  # below 1 it is a share
        optim="adamw_torch_fused",
        bf16=run.device == "cuda",
        use_cpu=run.device == "cpu",
        dataloader_pin_memory=run.device == "cuda",
        train_sampling_strategy="group_by_length",
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=run.seed,
    )
    clock = Clock()
    rows = features(encoded)
    trainer = hf.Trainer(model=model, args=plan, train_dataset=rows, data_collator=collate, callbacks=[clock])
    last = trainer.train().global_step
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    first = run.warm if run.steps else 0
    return Trained(last - first, sum(tokens[first:last]), clock.times[last] - clock.times[first])


def their_model(kind: str, source: str, labels: Labels | None) -> Any:
    import transformers as hf

    if kind == "answer":
        return hf.AutoModelForQuestionAnswering.from_pretrained(source, dtype=torch.float32)
    if labels is None:
        heads: dict[str, Any] = {"num_labels": 1, "problem_type": "regression"}
    else:
        names = dict(enumerate(labels.names))
        heads = {"num_labels": len(names), "id2label": names, "label2id": {name: i for i, name in names.items()}}
    auto = hf.AutoModelForTokenClassification if kind == "tag" else hf.AutoModelForSequenceClassification
    return auto.from_pretrained(source, dtype=torch.float32, **heads)


def features(encoded: TokenizedDataset) -> list[dict[str, Any]]:
    """The same examples as the Trainer takes them."""
    names = dict.fromkeys(("classes", "scores", "tags"), "labels")
    names |= {"starts": "start_positions", "ends": "end_positions"}
    rows: list[dict[str, Any]] = []
    for item, sequence in enumerate(encoded.members[:, 0].tolist()):
        place = slice(encoded.offsets[sequence], encoded.offsets[sequence + 1])
        ids = encoded.ids[place].tolist()
        row = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        if encoded.segments is not None:
            row["token_type_ids"] = encoded.segments[place].tolist()
        row |= {names[name]: values[item].item() for name, values in encoded.targets.items()}
        row |= {names[name]: values[place].tolist() for name, values in encoded.token_targets.items()}
        rows.append(row)
    return rows


def score(run: Run, task: Task, folder: Path, tests: dict[str, Path]) -> dict[str, float]:
    model = clearhead.load(folder, device=run.device)
    figures = {
        name: EVALUATIONS[task.kind](model, TASK_SPECS[task.kind].read(path, {})).metrics
        for name, path in tests.items()
    }
    return {f"{name} {metric}": figures[name][metric] for name in tests for metric in task.metrics}


def shortened(path: Path, rows: int | None, folder: Path) -> Path:
    """Write the first rows of a data file in its own format; of SQuAD, one question for each of so many paragraphs."""
    if rows is None:
        return path
    text = path.read_text("utf-8-sig")
    if path.suffix == ".json":
        paragraphs = [one for article in json.loads(text)["data"] for one in article["paragraphs"]][:rows]
        text = json.dumps({"data": [{"paragraphs": [{**one, "qas": one["qas"][:1]} for one in paragraphs]}]})
    elif path.suffix == ".tsv":
        text = "\n".join(text.split("\n")[: rows + 1])
    else:
        text = "\n\n".join(text.split("\n\n")[:rows])
    short = folder / path.name
    short.write_text(text, encoding="utf-8")
    return short


def main() -> None:
    run = Run(**json.loads(sys.argv[1]))
    task = TASKS[run.task]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder, given = Path(scratch) / "model", Path(run.data)
        data = shortened(given / task.train, run.limit, Path(scratch))
        trained = {"clearhead": ours, "transformers": theirs}[run.system](run, task, data, folder)
        tests = {name: shortened(given / path, run.limit, Path(scratch)) for name, path in task.tests.items()}
        figures = score(run, task, folder, tests) if run.steps is None else {}
    wall = time.perf_counter() - start
    print(json.dumps({"run": asdict(run), **asdict(trained), "wall": round(wall, 1), "figures": figures}))


if __name__ == "__main__":
    main()

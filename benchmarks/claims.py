"""The lectures' line of models at equal compute: CBOW, ELMo, GPT, BERT, T5 and replaced tokens, on the same text.

All read the same pieces of the same text and are given the same number of floating-point operations; CBOW could not
spend as many, and has two epochs. The Transformers have the same blocks (T5 its own), GPT's with a causal mask, so
that what they see and what they guess is all that differs. Then the same is asked of all of them: a linear tagger on
frozen vectors, layers mixed in shares that it learns (CoNLL-2003), whether a word means the same in two sentences
(WiC), a linear classifier on frozen vectors (SST-2); and fine-tuned, under the same heads, SST-2, MRPC and CoNLL-2003.
Beside them stands BERT's network as it was drawn. What was done stays in --out, so that a run that was stopped goes on.

usage: python benchmarks/claims.py pretrain --text FILES… --out DIR [--only BERT …] [--teraflops 6]
       python benchmarks/claims.py probe --out DIR --data DIR [--only …]
       python benchmarks/claims.py finetune --out DIR --data DIR [--only …] [--seeds 0 …]
       python benchmarks/claims.py table --out DIR
       DATA: conll2003/eng.{train,testa}, wic/{train,dev}.{data,gold}.txt, glue/{SST-2,MRPC}/{train,dev}.tsv
"""

# N packed tokens · W words · K layers · D width · V vocabulary

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from clearhead.data.batch import Batch
from clearhead.data.corpus import Corpus
from clearhead.data.dataset import ShuffledBatches, TokenizedDataset
from clearhead.data.encode import encode_tags, encode_texts
from clearhead.data.examples import Labels, WordsExample
from clearhead.data.formats import read_conll, read_texts
from clearhead.data.masking import MaskedBatches, Masking, Vocabulary
from clearhead.data.pretraining import NeighbourTargets, PackedText
from clearhead.data.rng import BatchSource, DerivedBatches, Stream, rng
from clearhead.data.seq2seq import SpanCorruption, corrupt
from clearhead.data.shards import Shards, tokenise
from clearhead.data.tags import recognised
from clearhead.data.word2vec import WordWindows
from clearhead.evaluation.conll import conlleval
from clearhead.models import t5
from clearhead.models.elmo import Elmo, ElmoConfig
from clearhead.models.modernbert import ModernBert, ModernBertConfig, heads
from clearhead.models.word2vec import Word2Vec, Word2VecConfig
from clearhead.nn.embeddings import spell
from clearhead.nn.features import ScalarMix
from clearhead.nn.heads import Network, NextTokenHead, SentenceVector, SequenceHead, TokenHead
from clearhead.nn.hooks import hidden_states
from clearhead.nn.hooks import record as watch
from clearhead.nn.layout import Packed
from clearhead.pipelines.runner import per_sequence, run
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.text.packed import Sequences
from clearhead.training.loop import train
from clearhead.training.recipes.finetune import over_seeds
from clearhead.training.settings import NEVER, Every, Settings
from clearhead.training.tasks.classification import Classify, TagTokens
from clearhead.training.tasks.language import (
    BidirectionalLM,
    CausalLM,
    MaskedLM,
    NegativeSampling,
    ReplacedTokens,
    Translation,
)
from clearhead.training.tasks.task import Task
from contextual import read_wic, wic_accuracy
from probing import LogisticRegression, Probe, of_words, probe_tags
from record import record

LAYERS, WIDTH, HEADS, LENGTH = 2, 128, 2, 64
VOCABULARY, SENTINELS = 4096, 32
TOKENS = 1024  # of a step
LONGEST = 128  # tokens of a text in the tasks
EPOCHS_OF_CBOW = 2
FINETUNING_RATE = 1e-3


class Read(nn.Module):
    """What each system is used as: ids to vectors, (N, D), and to all its layers, (N, K, D)."""

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.body, self.width = body, width

    def forward(self, ids: Tensor, layout: Packed, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) -> (N, D); nobody has learnt segments."""
        return self.layers(ids, layout)[:, -1]

    def layers(self, ids: Tensor, layout: Packed) -> Tensor:
        """Ids (N,) -> (N, K, D)."""
        return torch.stack(hidden_states(self.body, ids, layout), 1)


class ReadWords(Read):
    """CBOW has one layer, in which a word is the same wherever it stands."""

    def layers(self, ids: Tensor, layout: Packed) -> Tensor:
        """Ids (N,) -> (N, 1, D)."""
        return self.body.read(ids)[:, None]


class ReadElmo(Read):
    """ELMo's layers, mixed in shares that a task learns, as published."""

    def __init__(self, body: Elmo, width: int) -> None:
        super().__init__(body, width)
        self.mix = ScalarMix(body.layers)

    def forward(self, ids: Tensor, layout: Packed, segments: Tensor | None = None) -> Tensor:
        """Ids (N,) -> (N, 2 D)."""
        return self.mix(self.layers(ids, layout))

    def layers(self, ids: Tensor, layout: Packed) -> Tensor:
        """Ids (N,) -> (N, K, 2 D)."""
        return self.body.states(self.body.spelling[ids], layout)


class ReadSource(Read):
    """T5 as its encoder."""

    def layers(self, ids: Tensor, layout: Packed) -> Tensor:
        """Ids (N,) -> (N, K, D)."""
        with watch(self.body.embeddings, *self.body.encoder_blocks) as calls:
            output = self.body.encode(ids, layout).hidden
        return torch.stack([*(call.output for call in calls[:-1]), output], 1)


class CorruptedSpans(DerivedBatches):
    """T5's, with sentinels beyond the vocabulary, which the others' tokenizer does not know."""

    def __init__(self, source: BatchSource, tokenizer: Tokenizer) -> None:
        super().__init__(source)
        self._sentinels, self._end = range(tokenizer.vocabulary, rows_of(tokenizer)), tokenizer.sep_id

    def batch(self, index: int) -> Batch:
        """Make batch number `index`."""
        draw = rng(Stream.SPAN_CORRUPTION, 0, index)
        return corrupt(self.source.batch(index), self._sentinels, self._end, SpanCorruption(), draw)


@dataclass(frozen=True)
class System:
    """A reader, what it learns by, and the batches of that, of one part of the text."""

    reader: Read
    task: Task
    batches: Callable[[Shards, str], BatchSource]
    optimiser: dict[str, Any]


MUON = {"optimiser": "muon", "learning_rate": 3e-3, "betas": (0.9, 0.98)}
# as their recipes have it: T5's table of tokens is of size 1, not 0.02, an LSTM's matrices are several in one, and word
# vectors are no matrix
ADAFACTOR_OF_T5 = {"optimiser": "adafactor", "learning_rate": 1e-2}
ADAMW_OF_LSTM = {"learning_rate": 2e-3, "betas": (0.9, 0.999)}
ADAMW_OF_WORDS = {"learning_rate": 2e-2, "weight_decay": 0.0}


def rows_of(tokenizer: Tokenizer) -> int:
    return tokenizer.vocabulary + SENTINELS


def blocks(tokenizer: Tokenizer, *, causal: bool = False, **changes: Any) -> ModernBert:
    """The blocks that GPT, BERT and replaced tokens share; `changes` are of their configuration."""
    config = ModernBertConfig(
        vocab_size=rows_of(tokenizer),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=WIDTH * 5 // 2,
        max_position_embeddings=LONGEST,
        global_attn_every_n_layers=1,
        global_rope_theta=10_000.0,
        pad_token_id=tokenizer.pad_id,
    )
    encoder = ModernBert(replace(config, **changes))
    for block in encoder.blocks:
        block.attention.attend.causal = causal
    return encoder


def _text(shards: Shards, split: str, tokenizer: Tokenizer) -> PackedText:
    return PackedText(shards, tokenizer, tokens=TOKENS, length=LENGTH, seed=0, split=split)


def cbow(tokenizer: Tokenizer) -> System:
    network = Word2Vec(Word2VecConfig(vocab_size=rows_of(tokenizer), hidden_size=WIDTH, pad_token_id=tokenizer.pad_id))
    return System(
        ReadWords(network, WIDTH),
        NegativeSampling(network),
        lambda shards, split: WordWindows(shards, tokenizer, kind="cbow", seed=0, words=TOKENS),
        ADAMW_OF_WORDS,
    )


def elmo(tokenizer: Tokenizer) -> System:
    config = ElmoConfig(
        vocab_size=tokenizer.vocabulary,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        max_characters=20,
        pad_token_id=tokenizer.pad_id,
    )
    network = Elmo(config)
    words = [tokenizer.id_to_token(i) or "" for i in range(config.vocab_size)]
    network.spelling.copy_(spell(words, config.max_characters))
    return System(
        ReadElmo(network, 2 * WIDTH),
        BidirectionalLM(network),
        lambda shards, split: NeighbourTargets(_text(shards, split, tokenizer)),
        ADAMW_OF_LSTM,
    )


def gpt(tokenizer: Tokenizer) -> System:
    encoder = blocks(tokenizer, causal=True)
    return System(
        Read(encoder, WIDTH),
        CausalLM(Network(encoder, {"causal_lm": NextTokenHead(encoder.embeddings.token)})),
        lambda shards, split: NeighbourTargets(_text(shards, split, tokenizer)),
        MUON,
    )


def bert(tokenizer: Tokenizer) -> System:
    encoder = blocks(tokenizer)
    return System(
        Read(encoder, WIDTH),
        MaskedLM(Network(encoder, heads(encoder, {"masked_lm": rows_of(tokenizer)}))),
        lambda shards, split: _masked(shards, split, tokenizer),
        MUON,
    )


def replaced(tokenizer: Tokenizer) -> System:
    encoder, generator = blocks(tokenizer), blocks(tokenizer, num_hidden_layers=1)
    guessing = Network(generator, heads(generator, {"masked_lm": rows_of(tokenizer)}))
    return System(
        Read(encoder, WIDTH),
        ReplacedTokens(guessing, Network(encoder, heads(encoder, {"replaced": 1}))),
        lambda shards, split: _masked(shards, split, tokenizer),
        MUON,
    )


def _masked(shards: Shards, split: str, tokenizer: Tokenizer) -> MaskedBatches:
    return MaskedBatches(_text(shards, split, tokenizer), Vocabulary.of(tokenizer), Masking())


def spans(tokenizer: Tokenizer) -> System:
    body = t5.T5(
        t5.T5Config(
            vocab_size=rows_of(tokenizer),
            d_model=WIDTH,
            d_kv=WIDTH // HEADS,
            d_ff=4 * WIDTH,
            num_layers=LAYERS,
            num_heads=HEADS,
            dropout_rate=0.0,
            pad_token_id=tokenizer.pad_id,
            eos_token_id=tokenizer.sep_id,
        )
    )
    return System(
        ReadSource(body, WIDTH),
        Translation(Network(body, t5.heads(body, {"causal_lm": rows_of(tokenizer)}))),
        lambda shards, split: CorruptedSpans(_text(shards, split, tokenizer), tokenizer),
        ADAFACTOR_OF_T5,
    )


SYSTEMS: dict[str, Callable[[Tokenizer], System]] = {
    "CBOW": cbow,
    "ELMo": elmo,
    "GPT, forward only": gpt,
    "BERT, masked tokens": bert,
    "T5, its encoder": spans,
    "replaced tokens": replaced,
}
FRESH = "no pre-training"  # BERT's network as it was drawn


def _attention(query: Sequence[int], key: Sequence[int], *_: Any, **__: Any) -> int:
    *rows, queries, width = query
    return 4 * int(np.prod(rows)) * queries * key[-2] * width  # two products


def _attention_back(_: Any, query: Sequence[int], key: Sequence[int], *__: Any, **___: Any) -> int:
    return 5 * _attention(query, key) // 2  # five products


def _lstm(x: Sequence[int], read: Sequence[int], kept: Sequence[int], *_: Any, **__: Any) -> int:
    return 2 * int(np.prod(x[:-1])) * (int(np.prod(read)) + int(np.prod(kept)))


# of a CPU, which torch does not count
KERNELS = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_back,
    torch.ops.aten.mkldnn_rnn_layer: _lstm,
    torch.ops.aten.mkldnn_rnn_layer_backward: lambda *shapes, **_: 2 * _lstm(*shapes),
}


def operations(task: Task, batch: Batch) -> int:
    """Count a step's floating-point operations, forward and backward: matrix products and convolutions."""
    with FlopCounterMode(display=False, custom_mapping=KERNELS) as counter:
        sum(loss.total for loss in task.losses(batch).values()).backward()
    task.network.zero_grad()
    return counter.get_total_flops()


def pretrain(name: str, options: argparse.Namespace) -> None:
    folder = options.out / slug(name)
    if (folder / "facts.json").is_file():
        return
    corpus = Corpus(options.text)
    tokenizer = vocabulary(options.out, corpus)
    shards = tokenise(corpus, tokenizer, options.out / "tokens")
    torch.manual_seed(0)
    system = SYSTEMS[name](tokenizer)
    source = system.batches(shards, "train")
    step = statistics.fmean(operations(system.task, source.batch(index)) for index in range(3))
    steps = max(int(options.teraflops * 1e12 / step), 1)
    if name == "CBOW":
        steps = min(steps, source.batches_in(EPOCHS_OF_CBOW))
    settings = Settings(
        steps=steps,
        warmup=0.1,
        schedule="linear",
        every=Every(log=max(steps // 20, 1), save=NEVER, minutes=2.0, evaluate=NEVER),
        **system.optimiser,
    )
    began = time.process_time()
    result = train(system.task, source, settings, folder / "run")
    if result.exit == "interrupted":
        raise KeyboardInterrupt  # run it again to go on
    facts = {
        "system": name,
        "parameters": sum(weight.numel() for weight in system.reader.parameters()),
        "steps": steps,
        "tokens": steps * TOKENS,  # of the text, whatever a batch makes of them
        "teraflops": steps * step / 1e12,
        "seconds": time.process_time() - began,  # of the session that finished it
        "loss": held_out(system, shards),
    }
    torch.save(system.reader.state_dict(), folder / "reader.pt")
    (folder / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    print(json.dumps(facts), flush=True)


@torch.no_grad()
def held_out(system: System, shards: Shards, batches: int = 16) -> float:
    """The loss of its own objective, a token's, on text that was not learnt from; of CBOW on the text itself."""
    system.task.network.eval()
    source = system.batches(shards, "validation")
    found = [system.task.losses(source.batch(index)) for index in range(batches)]
    parts = [statistics.fmean(float(losses[part].mean) for losses in found) for part in system.task.weights]
    shares = list(system.task.weights.values())
    return sum(share * part for share, part in zip(shares, parts, strict=True)) / sum(shares)


def vocabulary(out: Path, corpus: Corpus) -> Tokenizer:
    """Learn the vocabulary that all share, with capitals, or take the one that is there."""
    folder = out / "tokenizer"
    if not folder.is_dir():
        train_tokenizer(texts=corpus.documents(), vocabulary=VOCABULARY, lowercase=False).save(folder)
    return Tokenizer.from_folder(folder)


def trained(name: str, out: Path) -> tuple[Read, Tokenizer]:
    tokenizer = Tokenizer.from_folder(out / "tokenizer")
    torch.manual_seed(0)
    reader = SYSTEMS["BERT, masked tokens" if name == FRESH else name](tokenizer).reader
    if name != FRESH:
        reader.load_state_dict(torch.load(out / slug(name) / "reader.pt"))
    return reader.eval(), tokenizer


@dataclass(frozen=True)
class Tagged:
    """CoNLL-2003: some sentences to learn from, and all that are asked."""

    training: list[WordsExample]
    dev: list[WordsExample]

    @classmethod
    def of(cls, data: Path, sentences: int) -> "Tagged":
        training, dev = (recognised(read_conll(data / "conll2003" / part)) for part in ("eng.train", "eng.testa"))
        return cls(some(training, sentences), some(dev, sentences))


def some(examples: Sequence[Any], count: int) -> list[Any]:
    """A fair sample: files are in the order of their sources."""
    return random.Random(0).sample(list(examples), min(count, len(examples)))


def probe(name: str, options: argparse.Namespace) -> None:
    log = options.out / "probes.jsonl"
    if any(row["system"] == name for row in rows_in(log)):
        return
    reader, tokenizer = trained(name, options.out)

    def read(examples: Sequence[WordsExample]) -> Tensor:
        return of_words(reader, lambda batch: reader.layers(batch.ids, batch.layout), examples, tokenizer, LONGEST)

    training, dev = (read_wic(options.data / "wic", part, None) for part in ("train", "dev"))
    same, layer, _ = wic_accuracy(read, training, dev)
    tagged = Tagged.of(options.data, options.rows)
    states = [read(part) for part in (tagged.training, tagged.dev)]
    found = []
    for seed in options.seeds:
        recipe = Probe()
        recipe = replace(recipe, train=replace(recipe.train, seed=seed))
        pair = (tagged.training, states[0]), (tagged.dev, states[1])
        found.append(probe_tags(*pair, recipe)["f1"])
    row = {"system": name, "conll": found, "wic": same, "wic_layer": layer}
    append(row | {"sst2": probe_texts(reader, tokenizer, options)}, log)


def probe_texts(reader: Read, tokenizer: Tokenizer, options: argparse.Namespace) -> float:
    """Logistic regression on the mean vectors of all layers side by side: accuracy on SST-2's dev."""
    parts = [read_texts(options.data / "glue/SST-2" / f"{part}.tsv") for part in ("train", "dev")]
    parts[0] = some(parts[0], options.rows)
    labels = Labels.of(str(one.label) for one in parts[0])
    gold = [torch.from_numpy(labels.ids([str(one.label) for one in part])) for part in parts]
    mean = SentenceVector("mean")

    def vectors(batch: Batch) -> Tensor:
        return mean(reader.layers(batch.ids, batch.layout).flatten(1), batch.layout)

    features = [
        run(reader, vectors, per_sequence, sequences(encode_texts(part, tokenizer, labels, length=LONGEST)))
        for part in parts
    ]
    scale = features[0].std(0).clamp(min=1e-6)
    found = LogisticRegression.fit(features[0] / scale, gold[0], len(labels), strength=0.01)
    return 100 * float((found.logits(features[1] / scale).argmax(-1) == gold[1]).float().mean())


def sequences(encoded: TokenizedDataset) -> Sequences:
    return Sequences(encoded.ids.astype(np.int64), encoded.offsets, None)


TASKS = {"SST-2": 2.0, "MRPC": 3.0, "CoNLL-2003": 3.0}  # epochs


def finetune(name: str, options: argparse.Namespace) -> None:
    log = options.out / "finetuned.jsonl"
    for task in TASKS:
        for seed in options.seeds:
            facts = {"system": name, "task": task, "seed": seed}
            if any(facts.items() <= row.items() for row in rows_in(log)):
                continue
            reader, tokenizer = trained(name, options.out)
            learn = finetune_tags if task == "CoNLL-2003" else finetune_texts
            append(facts | {"figure": learn(reader, tokenizer, task, seed, options)}, log)


def finetune_texts(reader: Read, tokenizer: Tokenizer, task: str, seed: int, options: argparse.Namespace) -> float:
    """Accuracy of a text's class, or a pair's, from the mean of its vectors."""
    parts = [read_texts(options.data / "glue" / task / f"{part}.tsv") for part in ("train", "dev")]
    parts[0] = some(parts[0], options.rows)
    labels = Labels.of(str(one.label) for one in parts[0])
    encoded = [encode_texts(part, tokenizer, labels, length=LONGEST) for part in parts]
    torch.manual_seed(seed)
    network = Network(reader, {"classes": SequenceHead(SentenceVector("mean"), reader.width, len(labels), 0.1)})
    learn(Classify(network), encoded[0], task, seed)
    said = run(network, lambda batch: network("classes", batch.ids, batch.layout), per_sequence, sequences(encoded[1]))
    return 100 * float(np.mean(said.argmax(-1).numpy() == encoded[1].targets["classes"]))


def finetune_tags(reader: Read, tokenizer: Tokenizer, task: str, seed: int, options: argparse.Namespace) -> float:
    """F1 of entities, as conlleval has it."""
    tagged = Tagged.of(options.data, options.rows)
    labels = Labels.of(tag for one in tagged.training for tag in one.tags or ())
    torch.manual_seed(seed)
    network = Network(reader, {"tags": TokenHead(reader.width, len(labels), 0.1)})
    learn(TagTokens(network), encode_tags(tagged.training, tokenizer, labels, length=LONGEST).encoded, task, seed)
    said = of_words(network, lambda batch: network("tags", batch.ids, batch.layout), tagged.dev, tokenizer, LONGEST)
    names = iter([labels.names[i] for i in said.argmax(-1).tolist()])
    predicted = [[next(names) for _ in one.words] for one in tagged.dev]
    return conlleval([one.tags or () for one in tagged.dev], predicted).metrics()["f1"]


def learn(task: Task, encoded: TokenizedDataset, name: str, seed: int) -> None:
    settings = Settings(
        epochs=TASKS[name],
        learning_rate=FINETUNING_RATE,
        seed=seed,
        every=Every(log=NEVER, save=NEVER, evaluate=NEVER),
    )
    with tempfile.TemporaryDirectory() as scratch:
        if train(task, ShuffledBatches(encoded, seed=seed, items=32), settings, Path(scratch)).exit == "interrupted":
            raise KeyboardInterrupt
    task.network.eval()


def rows_in(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.is_file() else []


def append(row: dict[str, Any], log: Path) -> None:
    print(json.dumps(row), flush=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def table(options: argparse.Namespace) -> None:
    """Keep what is there: one file of what was spent, one of what it was good for."""
    spent, good = [], []
    probes, tuned = rows_in(options.out / "probes.jsonl"), rows_in(options.out / "finetuned.jsonl")
    for name in (FRESH, *SYSTEMS):
        facts = options.out / slug(name) / "facts.json"
        if facts.is_file():
            one = json.loads(facts.read_text("utf-8"))
            spent.append(
                [
                    name,
                    *(one[key] / 1e6 for key in ("parameters", "tokens")),
                    one["teraflops"],
                    one["seconds"],
                    one["loss"],
                ]
            )
        probed = [row for row in probes if row["system"] == name]
        figures = [[row["figure"] for row in tuned if (row["system"], row["task"]) == (name, task)] for task in TASKS]
        if probed and all(figures):
            one = probed[0]
            good.append([name, spread(one["conll"]), one["wic"], one["sst2"], *map(spread, figures)])
    columns = {"": "{}", "parameters, M": "{:.2f}", "tokens read, M": "{:.2f}", "operations, 10¹²": "{:.2f}"}
    columns |= {"seconds of a core": "{:,.0f}", "its own loss": "{:.2f}"}
    print(record("claims_compute", columns, spent, threads=options.threads))
    both = "{:.1f} ± {:.1f}"
    columns = {"": "{}", "CoNLL F1, frozen": both, "WiC, frozen": "{:.1f}", "SST-2, frozen": "{:.1f}"}
    columns |= dict.fromkeys(TASKS, both)
    print(record("claims", columns, good, threads=options.threads))


def spread(found: Sequence[float]) -> list[float] | str:
    """Mean and deviation over the seeds; of one seed there is none."""
    if len(found) == 1:
        return f"{found[0]:.1f}"
    return list(over_seeds([{"": one} for one in found])[""])


def slug(name: str) -> str:
    return name.partition(",")[0].replace(" ", "-").lower()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["pretrain", "probe", "finetune", "table"])
    parser.add_argument("--text", nargs="+", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=[FRESH, *SYSTEMS], default=[FRESH, *SYSTEMS], metavar="SYSTEM")
    parser.add_argument("--teraflops", type=float, default=6.0, help="10^12 operations of each pre-training")
    parser.add_argument("--rows", type=int, default=4000, help="examples of a task to learn from")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.step == "table":
        table(options)
        return
    for name in options.only:
        if options.step == "pretrain" and name != FRESH:
            pretrain(name, options)
        elif options.step != "pretrain":
            {"probe": probe, "finetune": finetune}[options.step](name, options)


if __name__ == "__main__":
    main()

"""What is fuzzed: each target draws a case, which is JSON, and runs it; only a ClearheadError may come out."""

import asyncio
import base64
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import clearhead as ch
from clearhead.data import formats
from clearhead.hub.checkpoint import read_folder, read_sentence_vector
from clearhead.models import ALL_FAMILIES
from clearhead.pipelines.search.index import Index
from clearhead.text import Tokenizer
from clearhead.training.checkpoint import State
from fuzz import folders, mutate

Case = dict[str, Any]  # what a case is made of, as JSON has it
BATCH = 128  # strings of a case


@dataclass(frozen=True)
class Target:
    """`draw` makes a case, `run` tries it; `count` says of how many inputs a case is."""

    kind: str  # "checkpoint", "strings", "data" or "studio"
    draw: Callable[[random.Random], Case]
    run: Callable[[Case], None]
    count: int = 1


class Bench:
    """Good folders and models in a room of its own, and the targets that change them."""

    def __init__(self, room: Path) -> None:
        torch.set_num_threads(1)
        self.room = room
        self.good = folders.write_all(room / "good")
        self.content: dict[tuple[str, str], bytes] = {}  # of every good file
        for family, folder in self.good.items():
            shutil.copytree(folder, room / "tried" / family)
            for path in folder.rglob("*"):
                if path.is_file():
                    self.content[family, path.relative_to(folder).as_posix()] = path.read_bytes()
        self.families = sorted(self.good)
        self.parsed = {place: json.loads(held) for place, held in self.content.items() if place[1].endswith(".json")}
        self.models = {head: self._model(head, *more) for head, *more in _HEADS}
        self.tokenizers = [folders.tokenizer(kind) for kind in _KINDS]
        self._index(room / "index")
        self.loop = asyncio.new_event_loop()
        self.app: Any = None
        self.targets = {
            "config": Target("checkpoint", self._draw_config, self._run_folder),
            "weights": Target("checkpoint", self._draw_weights, self._run_folder),
            "tokenizer": Target("checkpoint", self._draw_tokenizer, self._run_tokenizer),
            "skill": Target("checkpoint", self._draw_skill, self._run_skill),
            "index": Target("checkpoint", self._draw_index, self._run_index),
            "sentence": Target("checkpoint", self._draw_sentence, self._run_sentence),
            "state": Target("checkpoint", self._draw_state, self._run_state),
            "strings": Target("strings", self._draw_strings, self._run_strings, BATCH),
            "data": Target("data", self._draw_data, self._run_data),
            "studio": Target("studio", self._draw_request, self._run_request),
        }

    def close(self) -> None:
        """End the loop that the studio's requests run in."""
        self.loop.close()

    def _model(self, head: str, outputs: int, labels: tuple[str, ...] | None) -> ch.Model:
        torch.manual_seed(0)
        own = folders.tokenizer("wordpiece")
        config = folders.tiny(ch.BertConfig, own.vocabulary)
        return ch.Model.create(config, own, heads={head: outputs}, labels=labels)

    def _index(self, folder: Path) -> None:
        Index.build(folders.TEXTS, self.models["classes"]).save(folder)
        self.index = {path.name: path.read_bytes() for path in folder.iterdir()}

    # a file of a checkpoint folder

    def _file(self, family: str, name: str, changed: bytes) -> Case:
        return {"family": family, "file": name, "bytes": base64.b64encode(changed).decode()}

    def _written(self, case: Case) -> "_Written":
        good = self.content.get((case["family"], case["file"]))
        return _Written(self.room / "tried" / case["family"], case["file"], case["bytes"], good)

    def _draw_config(self, rng: random.Random) -> Case:
        family = rng.choice(self.families)
        return self._file(family, "config.json", mutate.json_bytes(rng, self.parsed[family, "config.json"]))

    def _draw_weights(self, rng: random.Random) -> Case:
        family = rng.choice(self.families)
        name = "model.safetensors"
        return self._file(family, name, mutate.safetensors(rng, self.content[family, name]))

    def _run_folder(self, case: Case) -> None:
        with self._written(case) as folder:
            read_folder(folder)

    def _draw_tokenizer(self, rng: random.Random) -> Case:
        family = rng.choice(_TOKENIZED)
        name = rng.choice(("tokenizer.json",) * 4 + ("tokenizer_config.json",))
        content = self.parsed[family, name]
        if name == "tokenizer.json" and rng.random() < 0.8:  # else the vocabulary takes nearly all changes
            parts = {key: part for key, part in content.items() if key != "model"}
            model = content["model"]
            held = {key: model[key] for key in model if key not in ("vocab", "merges")}
            changed = mutate.value(rng, {**parts, "model": held})
            if isinstance(changed, dict) and isinstance(changed.get("model"), dict):
                changed["model"] = {
                    "vocab": model["vocab"],
                    **({"merges": model["merges"]} if "merges" in model else {}),
                } | changed["model"]
            return self._file(family, name, json.dumps(changed).encode("utf-8", "surrogatepass"))
        return self._file(family, name, mutate.json_bytes(rng, content))

    def _run_tokenizer(self, case: Case) -> None:
        with self._written(case) as folder:
            tokenizer = Tokenizer.from_folder(folder)
            for text in _SAMPLE:
                within = all(0 <= start <= end <= len(text) for start, end in tokenizer.pieces(text).offsets)
                assert within, text
                tokenizer.decode(tokenizer.encode(text, text).ids)

    def _draw_skill(self, rng: random.Random) -> Case:
        name = rng.choice(("sentiment", "entities", "questions", "similarity"))
        if rng.random() < 0.5:
            place = f"skills/{name}/skill.json"
            return self._file("built-in", place, mutate.json_bytes(rng, self.parsed["built-in", place]))
        place = f"skills/{name}/adapter.safetensors"
        return self._file("built-in", place, mutate.safetensors(rng, self.content["built-in", place]))

    def _run_skill(self, case: Case) -> None:
        if "built-in" not in self.models:
            self.models["built-in"] = ch.load(self.room / "tried" / "built-in")
        model, name = self.models["built-in"], case["file"].split("/")[1]
        with self._written(case):
            model.to("cpu")  # forgets the skills that were read
            learnt = model.skill(name)
            use = {"sentiment": learnt.classify, "entities": learnt.tag, "similarity": learnt.embed}.get(name)
            learnt.answer("who?", "Ada wrote") if use is None else use("Ada wrote")

    def _draw_sentence(self, rng: random.Random) -> Case:
        good = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
        good += [{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        return self._file("bert", "modules.json", mutate.json_bytes(rng, good))

    def _run_sentence(self, case: Case) -> None:
        with self._written(case) as folder:
            read_sentence_vector(folder)

    def _draw_state(self, rng: random.Random) -> Case:
        content = {
            "step": 3,
            "index": 4,
            "tokens": 5,
            "sums": {"loss": [1.0, 2.0]},
            "norms": {"seen": 1, "mean": 0.5, "variance": 0.1},
        }
        return {"content": json.dumps(mutate.value(rng, content | {"losses": {}, "best": None, "best_step": None}))}

    def _run_state(self, case: Case) -> None:
        State.from_json(json.loads(case["content"]))

    def _draw_index(self, rng: random.Random) -> Case:
        name = rng.choice(sorted(self.index))
        content = self.index[name]
        if name.endswith(".safetensors"):
            changed = mutate.safetensors(rng, content)
        elif name.endswith(".json"):
            changed = mutate.json_bytes(rng, json.loads(content))
        else:
            lines = content.split(b"\n")
            place = rng.randrange(len(lines) - 1)
            lines[place] = mutate.json_bytes(rng, json.loads(lines[place]))
            changed = b"\n".join(lines)
        return {"file": name, "bytes": base64.b64encode(changed).decode(), "sealed": rng.random() < 0.7}

    def _run_index(self, case: Case) -> None:
        from hub.test_strange_files import seal

        with _Written(self.room / "index", case["file"], case["bytes"], self.index[case["file"]]) as folder:
            if case["sealed"] and case["file"] != "index.json":
                try:
                    seal(folder)
                except Exception:
                    return
            try:
                index = Index.load(folder, self.models["classes"])
                index.search("the animal", method="bm25")
                index.search("the animal", method="hybrid")
            finally:
                (folder / "index.json").write_bytes(self.index["index.json"])

    # strings

    def _draw_strings(self, rng: random.Random) -> Case:
        return {"texts": [mutate.text(rng) for _ in range(BATCH)], "tokenizer": rng.randrange(len(self.tokenizers))}

    def _run_strings(self, case: Case) -> None:
        texts = [text or "." for text in case["texts"]]
        tokenizer = self.tokenizers[case["tokenizer"]]
        for text, pieces in zip(texts, tokenizer.pieces_batch(texts), strict=True):
            check_offsets(text, pieces.offsets)
        vectors = self.models["classes"].embed(texts)
        assert len(vectors) == len(texts)
        for text, found in zip(texts, self.models["tags"].tag(texts), strict=True):
            for entity in found.entities:
                assert text[entity.start : entity.end] == entity.text, (text, entity)
        answerable = [text for text in texts if text.strip()]
        answers = self.models["span"].answer(["who?"] * len(answerable), answerable)
        for text, answer in zip(answerable, answers, strict=True):
            if answer.text is not None:
                assert text[answer.start : answer.end] == answer.text, (text, answer)

    # data files

    def _draw_data(self, rng: random.Random) -> Case:
        name, content = rng.choice(sorted(_DATA.items()))
        if name.endswith(".json"):
            changed = mutate.json_bytes(rng, json.loads(content))
        elif name.endswith(".jsonl") and rng.random() < 0.7:
            lines = content.splitlines()
            place = rng.randrange(len(lines))
            lines[place] = json.dumps(mutate.value(rng, json.loads(lines[place])))
            changed = "\n".join(lines).encode("utf-8", "surrogatepass")
        else:
            changed = mutate.raw(rng, content.encode())
        return {"file": name, "bytes": base64.b64encode(changed).decode()}

    def _run_data(self, case: Case) -> None:
        folder = self.room / "data"
        folder.mkdir(exist_ok=True)
        path = folder / case["file"]
        path.write_bytes(base64.b64decode(case["bytes"]))
        _READERS[case["file"].split(".")[0]](path)

    # the studio

    def _draw_request(self, rng: random.Random) -> Case:
        from clearhead.studio.pages import PAGES

        entry = rng.choice(PAGES)
        given: dict[str, Any] = {}
        for field in entry.fields:
            given[field.name] = rng.choice(
                (mutate.text(rng)[:200], mutate.text(rng)[:200], mutate.any_value(rng), field.default)
            )
        given |= {
            "model": rng.choice((None, "bert", "built-in", "x", "\ud800", 3)),
            "skill": rng.choice((None, None, "sentiment", "\udfff", 3)),
        }
        body = json.dumps(mutate.value(rng, given) if rng.random() < 0.5 else given).encode()
        body = mutate.raw(rng, body) if rng.random() < 0.1 else body
        path = rng.choice(
            (f"/api{entry.path}",) * 8 + ("/api/model", f"/picture{entry.path[5:]}", "/api/x/y", "/static/x")
        )
        leaves = rng.random() < 0.05
        return {"path": path, "body": base64.b64encode(body).decode(), "leaves": leaves}

    def _run_request(self, case: Case) -> None:
        if self.app is None:
            from studio.in_process import create_app

            names = [str(self.good[name]) for name in ("bert", "built-in", "gpt2", "marian")]
            self.app = create_app(names)
        body = base64.b64decode(case["body"])
        messages = [{"type": "http.request", "body": body, "more_body": case["leaves"]}]
        messages += [{"type": "http.disconnect"}] if case["leaves"] else []
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop(0)
            await asyncio.sleep(3600)
            return {}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
        method = "POST" if case["path"].startswith("/api/") else "GET"
        scope = {"type": "http", "method": method, "path": case["path"], "headers": headers, "query_string": b""}
        self.loop.run_until_complete(self.app({**scope, "http_version": "1.1", "scheme": "http"}, receive, send))
        assert sent[0]["status"] < 500, sent
        is_json = any(value.startswith(b"application/json") for _, value in sent[0]["headers"])
        if sent[0]["status"] >= 400 and is_json:
            said = json.loads(b"".join(message.get("body", b"") for message in sent[1:]))
            assert said["error"], sent


class _Written:
    """A folder with one file changed, which gets its good content back."""

    def __init__(self, folder: Path, name: str, content: str, good: bytes | None) -> None:
        self.folder, self.path, self.good = folder, folder / name, good
        self.content = base64.b64decode(content)

    def __enter__(self) -> Path:
        self.path.write_bytes(self.content)
        return self.folder

    def __exit__(self, *_: object) -> None:
        if self.good is None:
            self.path.unlink()
        else:
            self.path.write_bytes(self.good)


def check_offsets(text: str, offsets: Any) -> None:
    """Offsets lie in the text, in order: each piece is a slice of it."""
    before = 0
    for start, end in offsets:
        assert 0 <= start <= end <= len(text), (text, start, end)
        assert start >= before or end <= before, (text, start, end)
        before = max(before, start)


_KINDS = ("wordpiece", "bpe", "unigram", "word", "gpt2", "t5", "xlnet")
_TOKENIZED = [name for name in ("bert", "roberta", "albert", "gpt2", "t5", "xlnet", "word2vec") if name in ALL_FAMILIES]
_HEADS = [
    ("classes", 3, ("a", "b", "c")),
    ("tags", 5, ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")),
    ("span", 2, None),
]
_SAMPLE = ["", "a", "The animal didn't cross.", " é 你好 🙂\u200d ", "x" * 150, "[MASK] <mask> \ud800"]
_SQUAD = {
    "version": "2",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "Ada wrote notes.",
                    "qas": [
                        {
                            "id": "1",
                            "question": "Who?",
                            "answers": [{"text": "Ada", "answer_start": 0}],
                            "is_impossible": False,
                        }
                    ],
                }
            ],
        }
    ],
}
_ASKED = {"id": "1", "question": "Who?", "context": "Ada wrote.", "answers": {"text": ["Ada"], "answer_start": [0]}}
_DATA = {
    "texts.csv": 'text,label\ngood film,1\n"bad, film",0\n',
    "texts.tsv": "text\tlabel\ngood film\t1\nbad film\t0\n",
    "texts.jsonl": '{"text": "good film", "label": "yes"}\n{"text": "bad", "label": "no"}\n',
    "texts.json": '[{"text": "good film", "label": 1}, {"text": "bad", "label": 0}]',
    "pairs.csv": "first,second,score\na man,a woman,1.5\na,b,0\n",
    "words.conll": "Ada B-PER\nwrote O\n. O\n\nBerlin B-LOC\n",
    "squad.json": json.dumps(_SQUAD),
    "questions.jsonl": json.dumps(_ASKED) + "\n",
    "instructions.jsonl": '{"prompt": "Say hello", "answer": "hello"}\n',
    "choices.jsonl": '{"context": "It rains.", "choices": ["wet", "dry"], "label": 0}\n',
}
_READERS: dict[str, Callable[[Path], Any]] = {
    "texts": lambda path: formats.read_texts(path),
    "pairs": lambda path: formats.read_texts(path),
    "words": lambda path: formats.read_conll(path),
    "squad": lambda path: formats.read_squad(path),
    "questions": lambda path: formats.read_questions(path),
    "instructions": lambda path: formats.read_instructions(path),
    "choices": lambda path: formats.read_choices(path),
}

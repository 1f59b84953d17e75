"""Verbs for checkpoints: info, convert, export."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from clearhead.cli.options import DEFAULT, ModelOption, Output, SkillOption, Verbs, Written
from clearhead.cli.render import Rows

app = Verbs()


@app.verb
def info(model: str | None = Argument(None, help=DEFAULT)) -> Rows:
    """Say what a checkpoint holds: family, sizes, parameters, heads, labels, tokenizer, how it is stored.

    Example: `clearhead info ./my-model`
    """
    from clearhead.hub.remote import find, unasked
    from clearhead.hub.weights import stored_type
    from clearhead.models import RECURRENT_FAMILIES
    from clearhead.nn.embeddings import UNLIMITED
    from clearhead.pipelines.model import load

    named = unasked() if model is None else model
    loaded = load(named)
    tokenizer, sentence = loaded.checkpoint.tokenizer, loaded.checkpoint.sentence
    words = None if tokenizer is None else {"vocabulary": tokenizer.vocabulary, "lowercase": tokenizer.lowercase}
    facts = {"family": loaded.family, "parameters": loaded.parameters, "tokenizer": words}
    if loaded.family not in RECURRENT_FAMILIES:
        facts = {
            "family": loaded.family,
            "architecture": loaded.checkpoint.description.architecture,
            "parameters": loaded.parameters,
            "encoder_parameters": sum(parameter.numel() for parameter in loaded.encoder.parameters()),
            "max_length": None if loaded.encoder.max_length == UNLIMITED else loaded.encoder.max_length,
            "heads": list(loaded.network.heads),
            "labels": list(loaded.labels) if loaded.labels else None,
            "skills": list(loaded.skills) or None,
            "tokenizer": words,
            "sentence_vector": sentence and {"pooling": sentence.pooling, "normalise": sentence.normalise},
        }
    facts["stored"] = stored_type(find(named))
    facts["config"] = asdict(loaded.config)
    yield facts, _fact_lines(facts)


def _fact_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        match value:
            case None:
                continue
            case dict():
                yield f"{name}:"
                yield from (f"  {key:<30} {inner}" for key, inner in value.items())
            case list():
                yield f"{name:<20} {', '.join(value) or 'none'}"
            case int():
                yield f"{name:<20} {value:,}"
            case _:
                yield f"{name:<20} {value}"


_FAMILY = "The model_type to write into config.json, such as bert, where it names none."
_ARCHITECTURE = "The class to write there, such as BertForTokenClassification; the family follows from it."


@app.verb
def convert(
    source: Path = Argument(..., help="A folder with pytorch_model.bin, or the file itself."),
    out: Path | None = Option(None, help="The folder to write to. Default: beside the source."),
    family: str | None = Option(None, help=_FAMILY),
    architecture: str | None = Option(None, help=_ARCHITECTURE),
    overwrite: bool = Option(False, "--overwrite", help="Replace files that are there already."),
) -> Rows:
    """Turn pytorch_model.bin into model.safetensors: only tensors are read, anything else is refused.

    With --family or --architecture, config.json is told what the tensors are, of a safetensors folder too.

    Example: `clearhead convert ./old-model --architecture BertForTokenClassification`
    """
    from clearhead.hub.convert import convert

    folder = convert(source, out, family=family, architecture=architecture, overwrite=overwrite)
    named = {} if family is architecture is None else {"config": str(folder / "config.json")}
    yield (
        {"folder": str(folder), **named},
        [f"wrote {folder / 'model.safetensors'}" if not named else f"wrote {folder}"],
    )


@app.verb
def export(
    out: Annotated[Output, Written("out", Path, Argument(..., help="The folder to write to."), "folder")],
    model: ModelOption = None,
    skill: SkillOption = None,
    half: bool = Option(False, "--half", help="16-bit floats: half the size."),
) -> Rows:
    """Write config.json, tokenizer.json and model.safetensors as transformers lays them out.

    Example: `clearhead export ./spam-model --skill spam`
    """
    import torch

    from clearhead.pipelines.model import load

    loaded = load(model, skill=skill, dtype=torch.float16 if half else torch.float32)
    loaded.save(out.path, overwrite=out.overwrite)
    yield {"folder": str(out.path), "parameters": loaded.parameters}, [f"wrote {loaded} to {out.path}"]

"""`make demo`: a tour in about half a minute, offline. Until clearhead ships a trained model, it trains a tiny one."""

import sys
from pathlib import Path

import torch
import typer

import clearhead as ch
from clearhead.data.corpus import Corpus
from clearhead.data.masking import Masking
from clearhead.data.source import rng
from clearhead.nn.attention import scaled_dot_product, scaled_scores
from clearhead.training.recipes.pretrain import Pretrain, preset, pretrain
from clearhead.training.settings import Every, Settings

# all the world the tiny model knows: where animals live and what they eat
ANIMALS = {
    "whale": ("sea", "krill"),
    "shark": ("sea", "fish"),
    "otter": ("river", "fish"),
    "trout": ("river", "flies"),
    "camel": ("desert", "thorns"),
    "lizard": ("desert", "flies"),
    "bear": ("forest", "honey"),
    "owl": ("forest", "mice"),
    "goat": ("mountain", "grass"),
    "eagle": ("mountain", "mice"),
}


def stories(count: int) -> str:
    """Write short documents about animals; each says everything twice, so that one half explains the other."""
    lines = []
    for animal in rng(0).choice(list(ANIMALS), count).tolist():
        place, food = ANIMALS[animal]
        lines.append(
            f"The {animal} lives in the {place}. It eats {food} because there is {food} in the {place}. "
            f"The {animal} was too tired to leave the {place}."
        )
    return "\n".join(lines) + "\n"


def say(line: str) -> None:
    """Show a line of Python before its result."""
    typer.secho(f"\n>>> {line}", fg="cyan")


def main(folder: Path = Path("demo"), steps: int = 400) -> None:
    """Run the tour and leave a model and a page in `folder`."""
    typer.echo("This version has no trained model yet, so the demo trains a tiny one on the fly: a BERT of two layers")
    typer.echo("that has read nothing but a thousand sentences about ten animals.")
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "animals.txt"
    text.write_text(stories(400), encoding="utf-8")

    say(f'tokenizer = ch.train_tokenizer("{text}", vocabulary=200)')
    tokenizer = ch.train_tokenizer(text, vocabulary=200)
    typer.echo(f"a WordPiece vocabulary of {tokenizer.vocabulary} tokens")

    say('tokenizer.encode("The owl was tired.", "It eats mice.").rows()    # token, position, sentence')
    rows = tokenizer.encode("The owl was tired.", "It eats mice.").rows()
    typer.echo("  ".join(f"{token} {position}/{sentence}" for token, position, sentence in rows))

    say("scaled_scores(q, k), then softmax                             # the lecture's 112 and 96, d = 64")
    q, k = torch.ones(1, 64), torch.tensor([[112 / 64], [96 / 64]]).expand(2, 64)
    (one, two), (first, second) = scaled_scores(q, k)[0].tolist(), scaled_dot_product(q, k, k)[1][0].tolist()
    typer.echo(f"{one:.0f} and {two:.0f} -> {first:.2f} and {second:.2f}")

    say('pretrain(corpus, tokenizer, "demo/model", Pretrain(model=preset("bert", "tiny"), …))')
    typer.echo("reading about animals …")
    recipe = Pretrain(
        model=preset("bert", "tiny"),
        masking=Masking(),
        length=64,
        tokens=1024,
        train=Settings(steps=steps, learning_rate=2e-3, seed=1, every=Every(save=10**6, evaluate=10**6)),
    )
    _, result = pretrain(Corpus(text), tokenizer, folder / "model", recipe)
    typer.echo(f"{result.step} steps, {result.tokens:,} tokens, {result.elapsed:.1f} s; curve in {folder}/model/run")

    say(f'model = ch.load("{folder}/model")                             # a folder that transformers reads too')
    model = ch.load(folder / "model")
    typer.echo(repr(model))

    for question in ("The whale lives in the [MASK].", "The owl lives in the forest. It eats [MASK]."):
        say(f'model.fill("{question}", top=3)')
        found = model.fill(question, top=3)
        typer.echo("   ".join(f"{prediction.token} {prediction.score:.2f}" for prediction in found.predictions))

    say("model.embed(texts)                                            # packed: no padding is ever computed")
    texts = [f"The {animal} is here." for animal in ANIMALS]
    vectors = model.embed(texts, normalise=True)
    typer.echo(f"{vectors.shape[0]} vectors of width {vectors.shape[1]}")

    sentence = "The bear was too tired to leave the forest. It eats honey."
    say(f'trace = ch.trace(model, "{sentence}")')
    trace = ch.trace(model, sentence)
    layer = trace.layers[0]
    rebuilt = (layer.weights @ layer.v - layer.head_output).abs().max().item()
    typer.echo(repr(trace))
    typer.echo(f"weights · values rebuild every head's output to {rebuilt:.0e}")

    page = folder / "attention.html"
    say(f'trace.heads().save("{page}")')
    trace.heads().save(page)
    typer.echo(f"wrote {page}: open it in a browser")

    typer.echo("\nTry next:")
    typer.echo(f'  .venv/bin/clearhead fill "The goat lives in the [MASK]." --model {folder}/model')
    typer.echo(f'  .venv/bin/clearhead look attention "The camel was tired." --model {folder}/model')
    typer.echo("  .venv/bin/clearhead info OWNER/NAME          # any BERT-family checkpoint on the Hugging Face hub")
    typer.echo("  docs/architecture.md, docs/training.md       # how it works, and how to train your own")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo"))

"""`make demo`: a tour in a few seconds, offline. Until clearhead ships a trained model, it builds a tiny one itself."""

import sys
from pathlib import Path

import torch
import typer

import clearhead as ch
from clearhead.nn.attention import scaled_dot_product, scaled_scores
from clearhead.nn.layout import Packed

TEXT = """
The animal didn't cross the street because it was too tired.
The street was wide, and the animal was alert but slow.
Be alert! A dog that is not alert will hurt itself when it has to cross a street.
She went to the bank to get money. The bank gave her money for a house by the river.
He sat on the bank of the river and saw the water go by. The water was cold and the river was wide.
He took a train to the city. He likes to train in the morning, before the city is awake.
If you don't want to get ill, wear a mask. A mask will not hurt you.
A word is cut into pieces, a piece becomes a vector, and the vectors look at each other.
Every vector asks a question, every vector holds a key, and every vector gives a value.
"""


def say(line: str) -> None:
    """Show a line of Python before its result."""
    typer.secho(f"\n>>> {line}", fg="cyan")


def main(folder: Path = Path("demo")) -> None:
    """Run the tour and leave a model and a page in `folder`."""
    torch.manual_seed(0)
    typer.echo("This version has no trained model yet, so the demo builds a tiny one on the fly: real parts, random")
    typer.echo("weights. What it shows is how things work, not what a trained model knows.")

    say("tokenizer = ch.train_tokenizer(texts=TEXT.splitlines(), vocabulary=300)")
    tokenizer = ch.train_tokenizer(texts=TEXT.splitlines(), vocabulary=300)
    typer.echo(f"a WordPiece vocabulary of {tokenizer.vocabulary} tokens")

    say('tokenizer.encode("Be alert!", "BERT will hurt!").rows()        # token, position, sentence')
    rows = tokenizer.encode("Be alert!", "BERT will hurt!").rows()
    typer.echo("  ".join(f"{token} {position}/{sentence}" for token, position, sentence in rows))

    say("scaled_scores(q, k), then softmax                             # the lecture's 112 and 96, d = 64")
    q, k = torch.ones(1, 64), torch.tensor([[112 / 64], [96 / 64]]).expand(2, 64)
    (one, two), (first, second) = scaled_scores(q, k)[0].tolist(), scaled_dot_product(q, k, k)[1][0].tolist()
    typer.echo(f"{one:.0f} and {two:.0f} -> {first:.2f} and {second:.2f}")

    say("model = ch.Model.create(ch.BertConfig(num_hidden_layers=4, hidden_size=128, …), tokenizer)")
    config = ch.BertConfig(
        vocab_size=tokenizer.vocabulary,
        num_hidden_layers=4,
        hidden_size=128,
        num_attention_heads=4,
        intermediate_size=512,
    )
    model = ch.Model.create(config, tokenizer, heads={"masked_lm": tokenizer.vocabulary})
    typer.echo(repr(model))

    say("model.embed(texts)                                            # packed: no padding is ever computed")
    texts = [line for line in TEXT.splitlines() if line]
    vectors = model.embed(texts)
    lengths = [len(tokenizer.encode(text)) for text in texts]
    real, rectangle = sum(lengths), max(lengths) * len(lengths)
    typer.echo(
        f"{vectors.shape[0]} vectors of width {vectors.shape[1]}; {real} tokens, padded they would be {rectangle}"
    )
    layout = Packed.of(lengths)
    typer.echo(f"the layout knows where each text starts: {layout.offsets.tolist()}")

    say(f'model.save("{folder}/model"); ch.load("{folder}/model")           # a folder that transformers reads too')
    model.save(folder / "model")
    again = ch.load(folder / "model")
    typer.echo(f"same vectors: {bool((again.embed(texts) == vectors).all())}")

    sentence = "The animal didn't cross the street because it was too tired"
    say(f'ch.trace(model, "{sentence}")')
    trace = ch.trace(again, sentence)
    layer = trace.layers[0]
    rebuilt = (layer.weights @ layer.v - layer.head_output).abs().max().item()
    typer.echo(f"{trace!r}")
    typer.echo(f"weights · values rebuild every head's output to {rebuilt:.0e}")

    page = folder / "attention.html"
    say(f'trace.heads().save("{page}")')
    trace.heads().save(page)
    typer.echo(f"wrote {page}: open it in a browser")

    typer.echo("\nTry next:")
    typer.echo(f'  .venv/bin/clearhead tokenize "Be alert!" "BERT will hurt!" --model {folder}/model')
    typer.echo(f'  .venv/bin/clearhead look attention "The dog is alert" --model {folder}/model')
    typer.echo("  .venv/bin/clearhead info OWNER/NAME          # any BERT-family checkpoint on the Hugging Face hub")
    typer.echo("  docs/architecture.md                         # the way from a string to hidden states")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))

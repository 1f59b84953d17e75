"""The card of the translator: translator.md, filled with what its making left behind and what the model itself says.

usage: python make-model/translator_card.py RUN FIGURES FOLDER
"""

import re
import sys
from pathlib import Path

import clearhead
from figures import read_figures

DIRECTIONS = ("de-en", "fr-en", "en-de", "en-fr")
SETS = {"tatoeba": "Tatoeba", "multi30k": "Multi30k"}
ASKED = (
    (">>en<<", "Ich muss auf den Markt gehen."),
    (">>en<<", "Je suis étudiant"),
    (">>de<<", "The house is small."),
    (">>fr<<", "The house is small."),
    (">>en<<", "Können Sie mir bitte helfen?"),
    (">>en<<", "Où est la gare, s'il vous plaît ?"),
    (">>de<<", "Where can I buy a ticket for the train to Berlin?"),
    (">>de<<", "The doctor called the nurse."),
    (">>en<<", "Die Bundesregierung hat am Mittwoch ein neues Gesetz zur Energieversorgung beschlossen."),
)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ("---",) * len(head), *rows])


def fill_in(template: str, gaps: dict[str, str], run: Path, folder: Path) -> None:
    """Write the card of a model: a template whose gaps are filled, and what its run says of the training."""
    training = re.search(r"## How it was trained.*", (run / "README.md").read_text("utf-8"), re.DOTALL)
    made = training[0].strip().replace(str(run.parent), "WORK").replace("trained", "made", 1) if training else ""
    card = (Path(__file__).parent / template).read_text("utf-8")
    for gap, text in {**gaps, "TRAINING": made}.items():
        card = card.replace(f"\n{gap}\n", f"\n{text}\n")
    (folder / "README.md").write_text(card, "utf-8")
    print(f"wrote {folder / 'README.md'}")


def main() -> None:
    run, measured, folder = map(Path, sys.argv[1:])
    model = clearhead.load(folder)
    config = model.config
    size = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in (".json", ".safetensors"))
    sizes = [
        ("layers", f"{config.encoder_layers} that read, {config.decoder_layers} that write"),
        ("width", f"{config.d_model}, {config.encoder_ffn_dim} in the feed-forward"),
        ("heads of attention in a layer", str(config.encoder_attention_heads)),
        ("vocabulary", f"{model.tokenizer.vocabulary:,} pieces, one for the three languages"),
        ("parameters", f"{model.parameters / 1e6:.1f} million"),
        ("size", f"{size / 2**20:.1f} MiB, matrices in int8"),
    ]
    found = read_figures(measured)
    figures, command = [], ""
    for name, title in SETS.items():
        for direction in DIRECTIONS:
            scores = [found.get(f"{name} {direction}, {metric}") for metric in ("bleu", "chrf")]
            command = next((row["command"] for row in scores if row is not None), command)
            figures.append(
                (title, direction.replace("-", "→"), *(f"{row['value']:.1f}" if row else "–" for row in scores))
            )
    written = [model.generate(f"{tag} {text}", num_beams=4).text for tag, text in ASKED]
    said = [(text, answer) for (_, text), answer in zip(ASKED, written, strict=True)]
    gaps = {
        "SIZES": table(("what", ""), sizes),
        "FIGURES": f"{table(('set', '', 'BLEU', 'chrF'), figures)}\n\n`{command}` and its like.",
        "SAID": table(("asked", "answered"), said),
    }
    fill_in("translator.md", gaps, run, folder)


if __name__ == "__main__":
    main()

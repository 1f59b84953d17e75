"""The pictures that the studio shows. To add one, add an entry."""

from clearhead.errors import NotFound
from clearhead.inside.byhand import by_hand
from clearhead.inside.decoding import LIMIT as DECODED
from clearhead.inside.decoding import decoding
from clearhead.inside.depth import through_layers
from clearhead.inside.inputs import summed_input
from clearhead.inside.positions import LIMIT, position_tables
from clearhead.inside.reasons import why
from clearhead.inside.runs import training_runs
from clearhead.inside.senses import EXAMPLES, senses_of
from clearhead.inside.trace import trace
from clearhead.inside.view import View
from clearhead.studio.entry import Entry, Example, Given
from clearhead.studio.fields import Field, lines_of
from clearhead.studio.lectures import ANIMAL, BANK, BERT_LARGE, MASKS, QUESTIONS, SENTENCES_TO_TRANSLATE, SPAM

TEXT = Field(name="text", label="Text", kind="text", required=True)
PAIR = Field(name="pair", label="Second text (if any)", kind="text")
SENTENCES = (Example("it → animal", {"text": ANIMAL}), Example("bank", {"text": BANK}))


def _step(given: Given) -> View:
    token: str = given["token"]
    return trace(given.loaded, given["text"]).step(
        int(token) if token.isdecimal() else token, given["layer"], given["head"]
    )


def _senses(given: Given) -> View:
    return senses_of(given.loaded, given["word"], lines_of(given["texts"]) or None)


def _runs(given: Given) -> View:
    if not given.runs:
        raise NotFound("this studio was started without runs; start it with --runs and the folders of training runs")
    return training_runs(given.runs)


VIEWS = (
    Entry(
        kind="look",
        name="by-hand",
        title="Attention by hand",
        question="How does attention compute?",
        needs="nothing",
        call=lambda given: by_hand(),
    ),
    Entry(
        kind="look",
        name="input",
        title="Input",
        question="What does a model read?",
        fields=(TEXT, PAIR),
        examples=(Example("Be alert!", {"text": "Be alert!", "pair": "BERT will hurt!"}), *SENTENCES),
        call=lambda given: summed_input(given.loaded, given["text"], given["pair"]),
    ),
    Entry(
        kind="look",
        name="positions",
        title="Positions",
        question="How is a position written?",
        needs="maybe model",
        fields=(Field(name="length", label="Positions", kind="number", default=64, least=2, most=LIMIT),),
        call=lambda given: position_tables(given.model, length=given["length"]),
    ),
    Entry(
        kind="look",
        name="attention",
        title="Attention",
        question="Who looks at whom?",
        fields=(TEXT, PAIR),
        examples=(*SENTENCES, *(Example(label, {"text": a, "pair": b}) for label, a, b in QUESTIONS)),
        call=lambda given: trace(given.loaded, given["text"], given["pair"]).heads(),
    ),
    Entry(
        kind="look",
        name="step",
        title="One token",
        question="What does one head do to one token?",
        fields=(
            TEXT,
            Field(name="token", label="Token: a word, or its number", default="1"),
            Field(name="layer", label="Layer", kind="number", default=0),
            Field(name="head", label="Head", kind="number", default=0),
        ),
        # where the built-in model links the two
        examples=(Example("it → animal", {"text": ANIMAL, "token": "it", "layer": 9, "head": 3}),),
        call=_step,
    ),
    Entry(
        kind="look",
        name="layers",
        title="Layers",
        question="What happens from layer to layer?",
        fields=(TEXT, PAIR),
        examples=SENTENCES,
        call=lambda given: through_layers(given.loaded, given["text"], given["pair"]),
    ),
    Entry(
        kind="look",
        name="senses",
        title="Map of senses",
        question="Does the model tell senses apart?",
        fields=(
            Field(name="word", label="Word", required=True),
            Field(name="texts", label="Texts with the word, one a line (if not the lectures')", kind="text"),
        ),
        examples=tuple(Example(word, {"word": word}) for word in EXAMPLES),
        call=_senses,
    ),
    Entry(
        kind="look",
        name="why",
        title="Why",
        question="Why this answer?",
        fields=(
            TEXT,
            PAIR,
            Field(name="use", label="Of what", choices=("classify", "answer", "fill")),
            Field(name="target", label="Explain another answer (if any)"),
        ),
        examples=(
            Example("a mask", {"text": MASKS[0], "use": "fill"}, skill=""),
            Example("spam", {"text": SPAM, "use": "classify"}, skill="spam"),
            Example("an answer", {"text": BERT_LARGE[0], "pair": BERT_LARGE[1], "use": "answer"}, skill=""),
        ),
        call=lambda given: why(given.loaded, given["text"], given["pair"], use=given["use"], target=given["target"]),
    ),
    Entry(
        kind="look",
        name="decoding",
        title="Word by word",
        question="How does a model write?",
        head="causal_lm",
        fields=(
            TEXT,
            Field(name="beams", label="Beams", kind="number", default=3, least=1, most=8),
            Field(name="longest", label="New tokens", kind="number", default=32, least=1, most=DECODED),
        ),
        examples=tuple(Example(text, {"text": text}) for text in SENTENCES_TO_TRANSLATE),
        call=lambda given: decoding(given.loaded, given["text"], beams=given["beams"], longest=given["longest"]),
    ),
    Entry(
        kind="look",
        name="runs",
        title="Runs",
        question="How is training going?",
        needs="runs",
        call=_runs,
    ),
)

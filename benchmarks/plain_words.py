"""Names found in lists of words, as CoNLL-2003 parts them, and in the same sentences as plain strings.

usage: python benchmarks/plain_words.py eng.testb [--every 1] [--model DIR]
"""

import argparse
from itertools import accumulate
from pathlib import Path

import clearhead
from clearhead.data.examples import WordsExample
from clearhead.data.formats import read_conll
from clearhead.data.tags import recognised
from clearhead.pipelines.token_classification import Labelled, Tagged, entities_of

Place = tuple[int, int, str]


def places(sentence: WordsExample) -> set[Place]:
    """Where the names of a sentence are, in characters of its words joined by spaces."""
    starts = accumulate((len(word) + 1 for word in sentence.words[:-1]), initial=0)
    words = [
        Labelled(word, tag, start, start + len(word), 1.0)
        for word, tag, start in zip(sentence.words, sentence.tags or (), starts, strict=True)
    ]
    return {(one.start, one.end, one.label) for one in entities_of(" ".join(sentence.words), words)}


def f1(sentences: list[WordsExample], tagged: list[Tagged]) -> float:
    """Of places that are right to the character, in percent."""
    wanted = [places(sentence) for sentence in sentences]
    found = [{(one.start, one.end, one.label) for one in result.entities} for result in tagged]
    right = sum(len(a & b) for a, b in zip(wanted, found, strict=True))
    return 200 * right / sum(len(a) + len(b) for a, b in zip(wanted, found, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a CoNLL file")
    parser.add_argument("--every", type=int, default=1, help="take each so manieth sentence")
    parser.add_argument("--model", help="default: the built-in one")
    given = parser.parse_args()
    model, sentences = clearhead.load(given.model), recognised(read_conll(given.data))[:: given.every]
    words = [list(sentence.words) for sentence in sentences]
    print(f"{len(sentences)} sentences")
    print(f"as words   {f1(sentences, model.tag(words)):.1f}")
    print(f"as strings {f1(sentences, model.tag([' '.join(one) for one in words])):.1f}")


if __name__ == "__main__":
    main()

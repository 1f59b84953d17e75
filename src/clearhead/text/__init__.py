"""Strings to ids and back: tokenizers, character offsets, words, windows over long text. Never imports torch."""

from clearhead.text.encoding import Encoding, Pieces
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.train import train_tokenizer
from clearhead.text.windows import Window, windows

__all__ = ["Encoding", "Pieces", "Tokenizer", "Window", "train_tokenizer", "windows"]

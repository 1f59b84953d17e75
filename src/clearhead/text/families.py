"""The tokenizer families, put together from a vocabulary.

Those of BERT and MPNet, RoBERTa and GPT-2, ALBERT, DeBERTa, T5 and XLNet; and whole words.
"""

from collections.abc import Mapping, Sequence

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MPNET_SPECIALS = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
GPT2_SPECIALS = ("<|endoftext|>",)
# of the unigram families: the special tokens, which come first in a vocabulary of ours, and what stands round texts
UNIGRAM_SPECIALS = {
    "albert": ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    "deberta-v2": ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"),
    "t5": ("<pad>", "</s>", "<unk>", *(f"<extra_id_{i}>" for i in range(100))),
    "xlnet": ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"),
}
_CLS_SEP = ("[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")
_UNIGRAM_TEMPLATES = {
    "albert": _CLS_SEP,
    "deberta-v2": _CLS_SEP,
    "t5": ("$A:0 </s>:0", "$A:0 </s>:0 $B:0 </s>:0"),
    "xlnet": ("$A:0 <sep>:0 <cls>:2", "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"),  # <cls> is in a segment of its own
    "marian": ("$A </s>", "$A $B </s>"),
}
# both families let a mask take the space before it, for it stands for a word together with that space
_MASKS = ("<mask>", "[MASK]")


def unigram_normalizer(*, lowercase: bool) -> normalizers.Normalizer:
    """ALBERT's cleaning: compatibility forms, any white space as one space and none at the ends.

    ALBERT also makes one quotation mark of two; we do not, because the library's offsets then miss the second.
    """
    folded = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    return one_space(*(folded if lowercase else [normalizers.NFKC()]))


def one_space(*before: normalizers.Normalizer) -> normalizers.Normalizer:
    """After other cleaning: any white space as one space and none at the ends."""
    return normalizers.Sequence([*before, normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])


def bert(
    vocabulary: Mapping[str, int], normalizer: normalizers.Normalizer, *, whole_words: bool = False
) -> tokenizers.Tokenizer:
    """WordPiece, or whole words: [CLS] A [SEP] B [SEP]. The vocabulary must hold [UNK], [CLS] and [SEP]."""
    library = _of_words(models.WordLevel if whole_words else models.WordPiece, vocabulary, normalizer)
    library.post_processor = _template(*_CLS_SEP, vocabulary)
    library.add_special_tokens([token for token in BERT_SPECIALS if token in vocabulary])
    return library


def _of_words(
    model: type[models.WordPiece | models.WordLevel],
    vocabulary: Mapping[str, int],
    normalizer: normalizers.Normalizer,
) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(model(dict(vocabulary), unk_token=BERT_SPECIALS[1]))
    library.normalizer = normalizer
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()  # of whole words too, for its spaces: none before a full stop
    return library


def mpnet(vocabulary: Mapping[str, int], normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    """WordPiece with RoBERTa's special tokens: <s> A </s></s> B </s>, without segments."""
    library = _of_words(models.WordPiece, vocabulary, normalizer)
    ends = (("</s>", vocabulary["</s>"]), ("<s>", vocabulary["<s>"]))
    library.post_processor = processors.RobertaProcessing(*ends, trim_offsets=True, add_prefix_space=False)
    _add_specials(library, [token for token in MPNET_SPECIALS if token in vocabulary])
    return library


def roberta(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], *, add_prefix_space: bool = False
) -> tokenizers.Tokenizer:
    """Byte-level BPE: <s> A </s></s> B </s>; nothing is put round the text where <s> and </s> are missing (GPT-2)."""
    library = tokenizers.Tokenizer(models.BPE(dict(vocabulary), list(merges)))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    library.decoder = decoders.ByteLevel()
    library.post_processor = processors.ByteLevel(trim_offsets=False)
    if "<s>" in vocabulary and "</s>" in vocabulary:
        library.post_processor = processors.RobertaProcessing(
            ("</s>", vocabulary["</s>"]),
            ("<s>", vocabulary["<s>"]),
            trim_offsets=True,
            add_prefix_space=add_prefix_space,
        )
    _add_specials(library, [token for token in (*ROBERTA_SPECIALS, *GPT2_SPECIALS) if token in vocabulary])
    return library


def unigram(
    family: str, pieces: Sequence[tuple[str, float]], normalizer: normalizers.Normalizer, specials: Sequence[str]
) -> tokenizers.Tokenizer:
    """ALBERT's, DeBERTa's, T5's, XLNet's or Marian's: pieces with their log probabilities, whose words begin with ▁."""
    ids = {piece: i for i, (piece, _) in enumerate(pieces)}
    unknown = ids.get("<unk>", ids.get("[UNK]"))
    library = tokenizers.Tokenizer(models.Unigram(list(pieces), unk_id=unknown))
    library.normalizer = normalizer
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.post_processor = _template(*_UNIGRAM_TEMPLATES[family], ids)
    library.decoder = decoders.Metaspace()
    _add_specials(library, specials)
    return library


def metaspace_bpe(
    vocabulary: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    normalizer: normalizers.Normalizer,
    specials: Sequence[str],
) -> tokenizers.Tokenizer:
    """BPE as SentencePiece does it: characters are joined, words begin with ▁, what is not known is one <unk>."""
    library = tokenizers.Tokenizer(models.BPE(dict(vocabulary), list(merges), unk_token="<unk>", fuse_unk=True))  # noqa: S106
    library.normalizer = normalizer
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.decoder = decoders.Metaspace()
    _add_specials(library, specials)
    return library


def template(before: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]]) -> processors.PostProcessor:
    """Put these tokens, given with their ids, before a text and after it, and after the second of a pair."""
    opening, ending = ([f"{token}:0" for token, _ in tokens] for tokens in (before, after))
    return processors.TemplateProcessing(
        single=[*opening, "$A:0", *ending],
        pair=[*opening, "$A:0", *ending, "$B:0", *ending],
        special_tokens=[*dict.fromkeys((*before, *after))],
    )


def _template(single: str, pair: str, ids: Mapping[str, int]) -> processors.PostProcessor:
    names = dict.fromkeys(item.partition(":")[0] for item in single.split() if not item.startswith("$"))
    special_tokens = [(name, ids[name]) for name in names]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=special_tokens)


def _add_specials(library: tokenizers.Tokenizer, specials: Sequence[str]) -> None:
    library.add_special_tokens([AddedToken(token, lstrip=token in _MASKS, normalized=False) for token in specials])

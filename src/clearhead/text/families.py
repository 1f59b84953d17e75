"""The tokenizer families, put together from a vocabulary: those of BERT, RoBERTa, GPT-2, ALBERT, T5, XLNet; words."""

from collections.abc import Mapping, Sequence

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
ALBERT_SPECIALS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
GPT2_SPECIALS = ("<|endoftext|>",)
T5_SPECIALS = ("<pad>", "</s>", "<unk>", *(f"<extra_id_{i}>" for i in range(100)))
XLNET_SPECIALS = ("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>")
_UNKNOWN = "[UNK]"
# both families let a mask take the space before it, for it stands for a word together with that space
_MASKS = ("<mask>", "[MASK]")


def bert_normalizer(
    *, lowercase: bool, strip_accents: bool | None = None, split_chinese: bool = True
) -> normalizers.Normalizer:
    """BERT's cleaning; accents go when `strip_accents` says so, and by default when lowercasing."""
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split_chinese, strip_accents=strip_accents, lowercase=lowercase
    )


def albert_normalizer(*, lowercase: bool) -> normalizers.Normalizer:
    """ALBERT's cleaning: compatibility forms, any white space as one space and none at the ends.

    ALBERT also makes one quotation mark of two; we do not, because the library's offsets then miss the second.
    """
    folded = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    spaces = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    return normalizers.Sequence([*(folded if lowercase else [normalizers.NFKC()]), *spaces])


def bert(vocabulary: Mapping[str, int], normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    """WordPiece: [CLS] A [SEP] B [SEP]. The vocabulary must hold [UNK], [CLS] and [SEP]."""
    return _split_as_bert(models.WordPiece(dict(vocabulary), unk_token=_UNKNOWN), vocabulary, normalizer)


def words(vocabulary: Mapping[str, int], normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    """Whole words, split as BERT does, with BERT's special tokens."""
    return _split_as_bert(models.WordLevel(dict(vocabulary), unk_token=_UNKNOWN), vocabulary, normalizer)


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
    specials = [token for token in (*ROBERTA_SPECIALS, "<|endoftext|>") if token in vocabulary]
    library.add_special_tokens([AddedToken(token, lstrip=token in _MASKS, normalized=False) for token in specials])
    return library


def albert(pieces: Sequence[tuple[str, float]], normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    """Unigram pieces with their log probabilities, ALBERT's special tokens first: [CLS] A [SEP] B [SEP]."""
    names = [piece for piece, _ in pieces]
    processor = _cls_sep(names.index("[CLS]"), names.index("[SEP]"))
    return _unigrams(pieces, normalizer, processor, ALBERT_SPECIALS)


def t5(pieces: Sequence[tuple[str, float]], normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    """Unigram pieces, T5's special tokens first, sentinels among them: A </s> B </s>."""
    processor = processors.TemplateProcessing(
        single="$A:0 </s>:0", pair="$A:0 </s>:0 $B:0 </s>:0", special_tokens=[_special("</s>", pieces)]
    )
    return _unigrams(pieces, normalizer, processor, T5_SPECIALS)


def xlnet(pieces: Sequence[tuple[str, float]], normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    """Unigram pieces, XLNet's special tokens first: A <sep> B <sep> <cls>, the last in a segment of its own."""
    processor = processors.TemplateProcessing(
        single="$A:0 <sep>:0 <cls>:2",
        pair="$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2",
        special_tokens=[_special(token, pieces) for token in ("<sep>", "<cls>")],
    )
    return _unigrams(pieces, normalizer, processor, XLNET_SPECIALS)


def between(before: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]]) -> processors.PostProcessor:
    """Put these tokens, given with their ids, before a text and after it, and after the second of a pair."""
    opening, ending = ([f"{token}:0" for token, _ in tokens] for tokens in (before, after))
    return processors.TemplateProcessing(
        single=[*opening, "$A:0", *ending],
        pair=[*opening, "$A:0", *ending, "$B:0", *ending],
        special_tokens=[*dict.fromkeys((*before, *after))],
    )


def _split_as_bert(
    model: models.Model, vocabulary: Mapping[str, int], normalizer: normalizers.Normalizer
) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(model)
    library.normalizer = normalizer
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.post_processor = _cls_sep(vocabulary["[CLS]"], vocabulary["[SEP]"])
    library.decoder = decoders.WordPiece()  # of whole words too, for its spaces: none before a full stop
    library.add_special_tokens([token for token in BERT_SPECIALS if token in vocabulary])
    return library


def _unigrams(
    pieces: Sequence[tuple[str, float]],
    normalizer: normalizers.Normalizer,
    processor: processors.PostProcessor,
    specials: Sequence[str],
) -> tokenizers.Tokenizer:
    names = [piece for piece, _ in pieces]
    library = tokenizers.Tokenizer(models.Unigram(list(pieces), unk_id=names.index("<unk>")))
    library.normalizer = normalizer
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    library.post_processor = processor
    library.decoder = decoders.Metaspace()
    library.add_special_tokens([AddedToken(token, lstrip=token in _MASKS, normalized=False) for token in specials])
    return library


def _special(token: str, pieces: Sequence[tuple[str, float]]) -> tuple[str, int]:
    return token, [piece for piece, _ in pieces].index(token)


def _cls_sep(cls_id: int, sep_id: int) -> processors.PostProcessor:
    return processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", cls_id), ("[SEP]", sep_id)],
    )

from hypothesis import strategies as st

HOSTILE = [
    "",
    "   ",
    "\x00",
    "a\x00b\x00",
    "\ud800",
    "be \udfff alert \ud83d",
    "👩‍👩‍👧‍👦 family 🏳️‍🌈",
    "e\u0301\u0323\u0330 Zalgo a\u0300\u0301\u0302\u0303",
    "\u0301\u0301 starts with marks",
    "שלום עולם مرحبا بالعالم",
    "\ufeffbe alert",
    "\u200b\u200d\u2060",
    "\n\t\r\x0b\x0c\u2028\u3000",
    "[MASK][MASK] [MASK]  <mask><mask> [CLS][SEP]",
    "ﬁ ½ İ ß ﷺ Ǆ",
    "``quotes'' a '' ``",
    "▁ ▁a a▁ Ġ Ġa ##a",
    "你好世界你好",
    "a" * 500,
    "é" * 300 + "!" * 300,
]
# letters of the small vocabularies, and what normalisers and pre-tokenisers treat in their own way
_ALPHABET = "abelrtuhTHE  !?.,'[]MASK<>mask\n\t\u00a0\u3000é\u0301你好😀\u200d\u200bßİﬁ½▁Ġ0"
small_texts = st.text(st.sampled_from(_ALPHABET), max_size=60)
texts = st.one_of(small_texts, st.text(max_size=40))
any_strings = st.one_of(
    st.sampled_from(HOSTILE), texts, st.text(st.characters(codec=None, categories=["Cs", "L", "M", "Zs", "Cc"]))
)

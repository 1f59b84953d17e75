"""The examples of the lectures, one click away."""

ANIMAL = "The animal didn't cross the street because it was too tired"
BANK = "She went to the bank to get money, he sat on the bank of the river"
MASKS = (
    "If you don't want to inhale virus, you should wear a [MASK].",
    "BERT, lift your [MASK].",
)
SPAM = "WINNER! You have won a free prize. Call now to claim your reward."
HAM = "Shall we meet at the library after the lecture?"
REVIEWS = ("A warm, funny and clever film.", "Two hours that I will never get back.")
NAMES = ("Ada Lovelace lived in London.", "BERT makes dirt")
# as on the slide, which quotes an encyclopaedia
NUS = (
    "The National University of Singapore (NUS) is the national research university of Singapore. Founded in 1905 as "
    "the Straits Settlements and Federated Malay States Government Medical School, NUS is the oldest higher education "
    "institution in Singapore. It is consistently ranked within the top 20 universities in the world and is considered "
    "to be the best university in the Asia-Pacific. NUS is a comprehensive research university, offering a wide range "
    "of disciplines, including the sciences, medicine and dentistry, design and environment, law, arts and social "
    "sciences, engineering, business, computing and music at both the undergraduate and postgraduate levels."
)
BERT_LARGE = (
    "How many parameters does BERT-large have?",
    "BERT-large is really big... it has 24 layers and an embedding size of 1,024, for a total of 340M parameters! "
    "Altogether it is 1.34GB, so expect it to take a couple minutes to download to your Colab instance.",
)
# label, question, passage
QUESTIONS = (
    ("What does NUS mean?", "What does NUS mean?", NUS),
    ("What can we learn?", "What can we learn in NUS?", NUS),
    ("BERT-large", *BERT_LARGE),
)
# what the pair was labelled, first text, second text
PAIRS = (
    (
        "contradiction",
        "A man inspects the uniform of a figure in some East Asian country.",
        "The man is sleeping.",
    ),
    (
        "neutral",
        "An older and younger man smiling.",
        "Two men are smiling and laughing at the cats playing on the floor.",
    ),
    ("entailment", "A soccer game with multiple males playing.", "Some men are playing a sport."),
)
PHARMACY = (
    "Can you get medicine for someone pharmacy",
    "A pharmacist may hand a prescription to a friend or relative of the patient.\n\n"
    "The pharmacy opens at nine and closes at six.\n\n"
    "Medicine should be kept out of the reach of children.\n\n"
    "Some one hundred pharmacies took part in the survey.",
)
ARTICLE = (
    "Recurrent networks read a sentence word by word. Whatever they have read must fit into one vector, so long "
    "sentences are hard for them. Attention lets a decoder look back at every word. The Transformer keeps the "
    "attention and drops the recurrence, so that all words are read at once. BERT is the encoder of a Transformer. It "
    "is trained to guess words that were hidden, on a great deal of text. Afterwards it is fine-tuned for a task with "
    "little data. The weather was fine when these lines were written."
)
SENTENCES_TO_TRANSLATE = ("Ich muss auf den Markt gehen.", "Je suis étudiant")

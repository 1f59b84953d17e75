"""German, French and English are told apart, in short texts too; what is none of them is not taken for one."""

import pytest

from clearhead.text.language_id import identify_language

TEXTS = {
    "de": """Guten Morgen|Ich muss auf den Markt gehen.|Hallo|Danke schön!|Wie spät ist es?|Wo ist der Bahnhof?
        Das Wetter ist heute sehr schön.|Können Sie mir bitte helfen?|ich heisse anna|Ein Hund bellt.|Gute Nacht
        Die Bundesregierung hat ein neues Gesetz beschlossen.|Auf Wiedersehen|Tschüss!|Entschuldigung|Ja, natürlich.
        Zwei Bier, bitte.|Er ist müde.|was kostet das|Der Zug fährt um acht Uhr ab.|Frohe Weihnachten|Kein Problem
        Herzlichen Glückwunsch zum Geburtstag|Eine Frau lacht.|koennen wir morgen telefonieren|Achtung!
        Schreiben Sie mir, wenn Sie angekommen sind.""",
    "fr": """Je suis étudiant|Bonjour|Merci beaucoup|Où est la gare, s'il vous plaît ?|Il pleut.|Comment ça va ?
        Bonne nuit|Au revoir|Un chien court dans la neige.|je m'appelle marie|Nous avons mangé à midi.|C'est la vie
        L’addition, s’il vous plaît|Je ne sais pas.|Deux cafés|quelle heure est il|Elle est partie hier.|Joyeux Noël
        Bon appétit !|Les enfants jouent dans le jardin.|Excusez-moi|D'accord|Qu'est-ce que c'est ?|A bientot
        Le gouvernement a présenté une nouvelle loi.|j ai faim""",
    "en": """Hello|I am a student|Good morning|The house is small.|Where is the station?|Thank you very much
        How much does it cost?|A dog runs through the snow.|She opened the door.|please call me back|It's raining.
        What's your name?|Two beers, please.|I don't know.|Happy birthday|Good night|My father works in a bank.
        The doctor called the nurse.|Excuse me|They have already left.|no problem|Merry Christmas|We were at home.
        Where can I buy a ticket for the train to Berlin?|Stop!|Doctors recommend sleep.""",
    "other": """¿Dónde está la estación?|Me llamo Juan y vivo en Madrid.|Muchas gracias|No tengo dinero.|Non lo so.
        Buongiorno, come stai?|Vorrei un caffè, per favore.|Onde fica a estação?|Eu não falo português.|我是学生
        Ik ga morgen naar huis.|Het is een mooie dag.|Waar is het station?|Я студент|私は学生です|انا طالب|42
        3.14 + 2 = 5.14| |...|🙂|Eu gosto de música.|El perro corre por la calle.|Tom|Paris|我叫 Tom""",
}
WRITTEN = [(text, code) for code, texts in TEXTS.items() for line in texts.splitlines() for text in line.split("|")]


@pytest.mark.parametrize(("text", "code"), [(text.strip(), code) for text, code in WRITTEN])
def test_the_language_of_a_text(text, code):
    found = identify_language(text)
    assert found not in ("de", "fr", "en") if code == "other" else found == code


def test_neither_case_nor_length_nor_apostrophes_matter():
    assert identify_language("JE NE SAIS PAS") == "fr"
    assert identify_language("l’eau") == identify_language("l'eau") == "fr"
    assert identify_language("Der Hund schläft. " * 2000) == "de"
    assert identify_language("Guten Tag\n\nIch bin da\n") == "de"

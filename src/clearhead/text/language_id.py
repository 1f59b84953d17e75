"""Which language a text is in, among German, French and English, by its function words and its spelling.

Spanish, Italian, Portuguese and Dutch are known so that they are not taken for one of the three.
"""

import re

# a word that several languages have speaks for each of them
_WORDS = {
    "de": """aber acht alle alles als also am an auch auf aus bei bin bis bist bitte da danke dann das dass dein
    deine dem den denn der des dich die dies diese diesen dieser dieses dir doch dort drei du ein eine einem einen
    einer eines einfach er es etwas euch fuer für ganz gar geh gehen geht gern gerne gestern gib gibt gut gute guten
    guter hab habe haben habt hallo hast hat hatte heute hier ich ihm ihn ihnen ihr ihre im immer in ins ist ja jeder
    jetzt kann kannst kein keine keinen komm kommt können lass los mach macht mag man mehr mein meine meinen mich mir
    mit morgen muss nach nein nicht nichts nie noch nun nur ob oder ohne schon sehr sei sein seine seit sich sie sind
    so soll tschüss tun uhr um und uns unser viel viele vom von vor wann war waren warum was weg weil weiß wenn wer
    werde werden wie wieder will willst wir wird wo wurde würde zeit zu zum zur zwei über""",
    "fr": """a ai aime aller alors ans après arrête as assez au aucun aussi autre aux avais avait avant avec avez
    avoir avons beaucoup besoin bien bientot bientôt bon bonjour bonne bonsoir ce ceci cela ces cet cette chaque chez
    chose combien comme comment dans de demain depuis des deux dire dis dit dois dont du déjà elle elles en encore es
    est et etait etes etre eu eux fait faire fais faut fois font ici il ils jamais je jour juste la le les leur leurs
    lui là ma maintenant mais maison me merci mes mieux moi moins mon monsieur madame même ne ni nos notre nous on
    ont ou oui où par parce parle pas peu peut peux plus pour pourquoi pouvez prends prenez quand que quel quelle
    quelque qui quoi rien sa sais salut sans se ses si soit sommes son sont suis sur ta te temps tes toi ton toujours
    tous tout toute toutes trop tres très tu un une va vais veux voici voilà vos votre voulez vous vraiment vu y à ça
    étais était été êtes être plaît""",
    "en": """a about after again all also always am an and any are as ask at away back be because been before but by
    call can come could day did do does don down each even ever every everyone excuse feel few fine for from get give
    go goes going good goodbye got had has have he hello help her here hey hi him his how i if in into is it its just
    keep know last leave let like little look love made make man many may me more most much must my need never new no
    not now of off oh ok old on one only or other our out over own people please problem put right said saw say see
    she should so some someone something stay still stop such take tell than thank thanks that the their them then
    there these they thing think this those time to today told tomorrow too took try two up us use very wait want was
    way we well went were what when where which who why will with work would yes you your""",
    "es": """al aquí bien buenas buenos como con cuando de del dos dónde día el ella en eres es esta este está están
    esto estoy gracias ha hay he hola la las le lo los me mi mucho muy más nada no nos o para pero por porque que qué
    quiero se señor si sin soy su sus sí también tengo tiene todo tu un una usted y ya yo""",
    "it": """al alla anche buona buongiorno che ci ciao come con cosa da dei del della di dove e era gli grazie ha
    hai ho i il in io la le lo ma mi mia mio molto nel no non oggi per perché più quando quello questa questo sei si
    sono sta su tu un una voglio è""",
    "pt": """a ao as bom com como da das de do dos e ela ele em está estou eu foi isso mais mas me meu minha muito na
    no nos não o obrigado onde os ou para por porque que quem se sem seu sim sua são também tem tenho um uma você vou
    é""",
    "nl": """aan als ben bent bij dag dank dat de deze die dit een en er ga geen goed goede haar had hallo heb hebben
    heeft het hier hij hoe ik in is ja je jij jullie kan maar me meer met mij mijn moet morgen naar niet nog nu of om
    ook op te tot uit van veel voor waar was wat we wij wil wordt zal ze zich zij zijn zo""",
}
_LISTS = {code: set(words.split()) for code, words in _WORDS.items()}
# spelling, what it speaks for, and how much, where a function word counts 1
_SPELLING = (
    ("de", 1.0, r"[äöüß]"),
    ("de", 0.6, r"sch|cht|tz|pf|\w{3}(?:ung|heit|keit|lich|isch|ig|chen)(?:e[nmrs]?)?\b"),
    ("de", 0.25, r"\w{2}e[nrlt]\b|ei|\bge\w{3,}|\b[zw]\w|k\w|z"),
    ("fr", 1.0, r"\b(?:[jldcnmst]|qu|jusqu|aujourd)'\w"),
    ("fr", 0.7, r"[éàêèùœîôûëïç]|\w\s[!?;:](?!\w)|[«»]"),
    ("fr", 0.4, r"eau|eux|ai[st]|oi|ou[irvstcl]|\w{2}(?:ez|ons|aient|oir|elle|ette|ique|eur|ment|tte|nne)\b"),
    ("fr", 0.2, r"\w{2}e[sr]?\b|qu|\w{2}(?:ons|ent|ant)\b"),
    ("en", 1.0, r"\w'(?:s|t|re|ve|ll|m|d)\b"),
    ("en", 0.6, r"th|wh|\w{2}(?:ing|ght|ly|ed|ies|ness|ful)\b|sh\b|\bsh|oo|ee[^n]"),
    ("en", 0.25, r"\w{2}[yks]\b|w\b|ow|ay|ea|\w[fl]l\b"),
    ("es", 1.0, r"[ñ¿¡áíóú]|\bll"),
    ("es", 0.3, r"\w{2}[oa]s?\b"),
    ("it", 0.3, r"\w{2}[oai]\b"),
    ("pt", 0.3, r"\w{2}[oa]s?\b"),
    ("it", 0.6, r"[àìòù]\b|\w{2}(?:zione|gg|cch)"),
    ("pt", 1.5, r"[ãõ]"),
    ("nl", 0.6, r"ij|aa|oe\w|uu"),
)
_LEAST = 0.5  # an ending alone tells nothing
_NOUN = (0.3, r"[a-zß-ÿ,] [A-ZÄÖÜ][a-zß-ÿ]{2}")  # German writes nouns with a capital
_OTHERS = {"es": 0.9, "it": 0.9, "pt": 0.9, "nl": 0.9}  # a text as much in one of the three is taken for that


def identify_language(text: str) -> str | None:
    """Tell the language of a text by its code: de, fr or en, perhaps es, it, pt or nl; None where nothing tells it.

    >>> identify_language("Guten Morgen"), identify_language("Je suis étudiant"), identify_language("42")
    ('de', 'fr', None)
    """
    small = text.lower().replace("\u2019", "'")
    words = re.findall(r"[^\W\d_]+", small)
    if 2 * sum(word[0] > "\u024f" for word in words) > len(words):  # not in Latin letters
        return None
    found = {code: float(sum(map(known.__contains__, words))) for code, known in _LISTS.items()}
    for code, weight, pattern in _SPELLING:
        found[code] += weight * len(re.findall(pattern, small))
    found["de"] += _NOUN[0] * len(re.findall(_NOUN[1], text))
    for code, share in _OTHERS.items():
        found[code] *= share
    (most, first), (next_most, _) = sorted(((count, code) for code, count in found.items()), reverse=True)[:2]
    return first if most > next_most and most >= _LEAST else None

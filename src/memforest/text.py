"""Text as the other rooms see it: folding, words, lexical tokens, numbers, negation.

Pure functions over Unicode strings. Everything is linear in the length of its input and safe on
untrusted text of any size. Nothing here decides a language: the English parts (stemming, stop words)
are harmless on other languages, and scripts that are written without spaces get character bigrams.

Not here: sentence splitting and attribution (`memforest.reading`), dates (`memforest.reading`).


How many tokens a text has, estimated: the model that will read it is not known here.
"""

from __future__ import annotations

import math
import re
import threading
import unicodedata
from functools import lru_cache
from typing import Literal


def word_set(text: str) -> frozenset[str]:
    """Return the white-space separated words of `text` as a set, so that word lists can be written as prose."""
    return frozenset(text.split())


MAX_TOKEN_CHARS = 40
"""Longest lexical token in characters; what is longer (a hash, a base64 line) is cut to this."""

STOP_WORDS: frozenset[str] = word_set("""
    a about am an and any are as at be because been being but by can cannot could did do does doing done for
    from get gets getting gonna got gotta had has have having he her hers herself him himself his how i if in
    into is it its itself just let like me mine my myself no nor not of off oh ok okay on onto or our ours
    ourselves shall she should so some such than that the their theirs them themselves then there these they
    this those though to too up upon us very was we were what when where which while who whom whose why will
    with would yeah yes you your yours yourself yourselves im ive id dont didnt doesnt isnt wasnt cant wont
    hey hi hello wow thanks thank really also much many well tell know say said asked
    de del el que y en un una uno por para con su sus es al lo se mi tu yo
    """)
"""Words the lexical index leaves out: function words, auxiliaries, question words, greetings.

Spanish function words are included where they are no English word and no common abbreviation.
"""

_NUMBER_WORDS: dict[str, str] = {
    **{
        word: str(value)
        for value, word in enumerate(
            [
                *("zero", "one", "two", "three", "four", "five", "six"),
                *("seven", "eight", "nine", "ten", "eleven", "twelve"),
            ]
        )
    },
    **{
        word: str(value)
        for value, word in enumerate(
            ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"],
            start=1,
        )
    },
    **{
        "twice": "2",
        "thrice": "3",
        "dozen": "12",
        "hundred": "100",
        "thousand": "1000",
        "million": "1000000",
    },
    **{"dos": "2", "tres": "3", "cuatro": "4", "cinco": "5", "seis": "6", "siete": "7", "ocho": "8"},
    **{"nueve": "9", "diez": "10", "doce": "12"},
}
# Spanish "once" (11) and "uno" are left out: "once" is an English adverb, "uno" an article.

_NEGATION_WORDS: frozenset[str] = word_set("""
    not never no none nobody nothing nowhere neither nor cannot without
    no nunca jamás nada nadie ningún ninguna ninguno tampoco sin
    pas jamais rien aucun aucune nicht kein keine keinen keiner nie niemals não nem mai niente нет не никогда
    dont didnt doesnt isnt wasnt arent werent cant couldnt wont wouldnt shouldnt havent hasnt hadnt
    """)
_NEGATION_CHARS = re.compile("[不没沒無无未別别]|ません|なかった|ない|ไม่|않|없|안 ")
# Said with a negation but meant as an assertion. Removed before looking.
_NOT_NEGATIONS = re.compile(
    r"\b(?:can'?t wait|can'?t believe|couldn'?t (?:agree more|be happier|be prouder|believe)|no (?:doubt|wonder|"
    r"problem|worries|matter)|not (?:only|just|to mention)|why not|"
    r"no less|nothing (?:but|like)|sin duda|no solo)\b"
)
_LEADING_NO = re.compile(r"^\s*no\s*[,.!;:—-]\s*")


def _mark_class() -> str:
    r"""Return the combining marks of the scripts in use, as the inside of a character class.

    Python's ``\w`` does not match them, so without this Devanagari or Thai words fall apart.
    """
    blocks = (range(0x0300, 0x1E00), range(0x20D0, 0x2100), range(0xA800, 0xAC00))
    marks = (chr(c) for block in blocks for c in block if unicodedata.category(chr(c)) in ("Mn", "Mc"))
    return "".join(marks) + "\u200c\u200d"


_MARKS = _mark_class()
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1050-\u108f\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u3096\u3099\u309a\u30a1-\u30fa\u30fc\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
)
"""Han, Hiragana, Katakana, Thai, Lao, Myanmar, Khmer, which are written without spaces between words: the inside of a
character class."""
_LETTER = rf"[^\W_{UNSPACED}]"
_WORD = re.compile(
    rf"[{UNSPACED}]+|\d+(?:[.,]\d+)+|{_LETTER}(?:{_LETTER}|[{_MARKS}])*(?:['’ʼ]{_LETTER}(?:{_LETTER}|[{_MARKS}])*)*"
)
_ASCII_WORD = re.compile(r"\d+(?:[.,]\d+)+|[a-z0-9]+(?:'[a-z0-9]+)*")
_DIGIT_GROUPS = re.compile(r"(?<![\w.,-])[0-9]{1,15}(?:[ /.()-]{1,2}[0-9]{2,15}){1,8}(?!\w)")
_ASCII_WRITTEN = re.compile(r"\d+(?:[.,]\d+)+|[A-Za-z0-9]+(?:'[A-Za-z0-9]+)*")
_UNSPACED_START = re.compile(f"[{UNSPACED}]")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_CLITICS = ("'s", "'re", "'ve", "'ll", "'m", "'d")
_LATIN_MARKS = re.compile("[\u0300-\u036f]")
# Letters that no normalisation form takes apart, and what people type instead of them.
_PLAIN_LETTERS = str.maketrans({"ø": "o", "đ": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe"})
_STEMMERS = threading.local()
# Scripts of which one language has a Snowball stemmer; it is applied to all languages of the script, as English is to Latin.
_STEMMED_SCRIPTS: tuple[tuple[re.Pattern[str], Literal["arabic", "russian"]], ...] = (
    (re.compile("[\u0400-\u04ff]+"), "russian"),
    (re.compile("[\u0600-\u06ff]+"), "arabic"),
)


def fold(text: str) -> str:
    """Return `text` in the form in which exact duplicates are equal.

    NFKC, case-folded, white space collapsed and trimmed. Accents stay: ``"esta"`` and ``"está"`` differ.
    """
    if not text.isascii():
        # NFKC of a case-folded text may need folding again (U+0345); NFKC_Casefold does it twice too.
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(text.casefold().split())


def strip_accents(text: str) -> str:
    """Return `text` without Latin, Greek and Cyrillic combining accents; other scripts keep their marks."""
    if text.isascii():
        return text
    plain = _LATIN_MARKS.sub("", unicodedata.normalize("NFD", text)).translate(_PLAIN_LETTERS)
    return unicodedata.normalize("NFC", plain)


_TITLES = word_set("""
    the a an mr mrs ms miss dr prof professor sir dame lady lord rev fr
    el la los las un una don doña dona señor señora sr sra le les der die das
    """)
_POSSESSIVE = re.compile(r"(?:['’ʼ]s|['’ʼ])$")
_NOT_NAME_CHARS = re.compile(rf"[^\w{_MARKS}&+#]+|_+")


def entity_key(name: str) -> str | None:
    """Return the key under which surface forms of one name meet, or None if nothing is left of it.

    ``"José"``, ``"jose"`` and ``"Jose's"`` share a key, and so do ``"The Hague"`` and ``"hague"``. A leading
    article or title is dropped while more words follow. Works for every script.

    >>> entity_key("Dr. José García's"), entity_key("東京"), entity_key("—")
    ('jose garcia', '東京', None)
    """
    return _entity_key(name[:200])


@lru_cache(maxsize=16_384)
def _entity_key(name: str) -> str | None:
    """Return `entity_key` of a name of bounded length, remembered: the same few names come again and again."""
    folded = strip_accents(fold(name)).strip()
    folded = _POSSESSIVE.sub("", folded.rstrip(".,;:!?。、"))
    parts = [
        part for part in _NOT_NAME_CHARS.sub(" ", folded.replace("'", "").replace("’", "")).split() if part
    ]
    while len(parts) > 1 and parts[0] in _TITLES:
        parts = parts[1:]
    key = " ".join(parts)
    return key if any(ch.isalnum() for ch in key) else None


def words(text: str) -> list[str]:
    """Return the words of `text` in order, as written.

    Numbers with a decimal part stay whole, contractions too; a run of a script without spaces is one word.

    >>> words("It's 3.5 km, 約二里")
    ["It's", '3.5', 'km', '約二里']
    """
    return (
        _ASCII_WRITTEN.findall(text) if text.isascii() else _WORD.findall(unicodedata.normalize("NFC", text))
    )


def lexical_tokens(text: str) -> list[str]:
    """Return the tokens that the lexical index stores for `text`, in order, repeats included.

    Case-folded, accents stripped, English Snowball stem, stop words left out (question words and
    auxiliaries among them), numbers kept. Scripts without spaces yield their character bigrams, or the
    character when it stands alone. A token has at most `MAX_TOKEN_CHARS` characters.

    Other languages than English get the same treatment: their words are folded, and an English suffix
    rule may shorten them. Index and question go through the same function, so that costs precision on
    rare words and never a match.

    >>> lexical_tokens("Where did José's sisters go in 2016? 東京都へ")
    ['jose', 'sister', 'go', '2016', '東京', '京都', '都へ']
    """
    return [token for _, tokens in lexical_words(text) for token in tokens]


def lexical_words(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the words of `text` in order and its `long_numbers`, case-folded, each with its lexical tokens; see `lexical_tokens`.

    >>> lexical_words("Where is José's gym?")
    [('where', ()), ('is', ()), ("josé's", ('jose',)), ('gym', ('gym',))]
    """
    if text.isascii():
        found = _ASCII_WORD.findall(text.lower())
    else:
        found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    found += long_numbers(text)
    # A long word is not cached whole: the cache is bounded in entries, not in bytes.
    return [
        (one, (_tokens_of if len(one) <= MAX_TOKEN_CHARS else _tokens_of.__wrapped__)(one)) for one in found
    ]


def long_numbers(text: str) -> list[str]:
    """Return the digits of each number of nine digits or more that stands in groups."""
    found = ("".join(filter(str.isdecimal, run)) for run in _DIGIT_GROUPS.findall(text))
    return [digits for digits in found if len(digits) >= 9]


@lru_cache(maxsize=65_536)  # a vocabulary is small and a stem costs 60 µs
def _tokens_of(word: str) -> tuple[str, ...]:
    """Return the lexical tokens of one case-folded word."""
    if _UNSPACED_START.match(word):
        return (word,) if len(word) == 1 else tuple(word[i : i + 2] for i in range(len(word) - 1))
    if word[0].isdigit() and not word.isalnum():
        return ((word.replace(",", "") if _THOUSANDS.match(word) else word)[:MAX_TOKEN_CHARS],)
    word = word.replace("’", "'").replace("ʼ", "'")
    if word.endswith("n't"):
        return ()
    for clitic in _CLITICS:
        word = word.removesuffix(clitic)
    return tuple(token for part in word.split("'") if part not in STOP_WORDS and (token := _stem(part)))


def _stem(word: str) -> str:
    """Return the stem of a Latin, Cyrillic or Arabic word without accents, another word as it is, cut to the longest token."""
    plain = strip_accents(word)
    if plain in STOP_WORDS:
        return ""
    if len(plain) > MAX_TOKEN_CHARS or plain.isdigit():
        return plain[:MAX_TOKEN_CHARS]
    if plain.isascii():
        return snowball_stem(plain, "english")
    for letters, language in _STEMMED_SCRIPTS:
        if letters.fullmatch(word):  # with its accents, as a stemmer expects them
            return strip_accents(snowball_stem(word, language))
    return plain


def snowball_stem(word: str, language: Literal["arabic", "english", "russian", "spanish"]) -> str:
    """Return the Snowball stem of a lower-case word.

    A stemmer keeps the word that it works on, so each thread has its own; a lock would not survive a fork.
    """
    stemmer = getattr(_STEMMERS, language, None)
    if stemmer is None:
        import snowballstemmer  # a command that only asks a server stems nothing

        stemmer = snowballstemmer.stemmer(language)
        setattr(_STEMMERS, language, stemmer)
    return str(stemmer.stemWord(word))


_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*|[〇一二三四五六七八九十百千万億]+|[^\W\d_]+")


def numbers(text: str) -> tuple[str, ...]:
    """Return every number in `text` in a normal form, in order of appearance.

    Digits of any script, decimals, thousands separators removed; English number words up to twelve and
    ordinals up to tenth, Spanish ones where unambiguous; runs of Han numerals as they stand. Made to keep
    two texts apart: too many numbers are found rather than too few.

    >>> numbers("Two dogs, 1,500 fans, the 3rd time at 5:30")
    ('2', '1500', '3', '5:30')
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found: list[str] = []
    for token in _NUMBER.findall(text.casefold()):
        if token[0].isdecimal():
            plain = token.replace(",", "") if _THOUSANDS.match(token) else token
            found.append(plain if plain.isascii() else "".join(_ascii_digit(ch) for ch in plain))
        elif token in _NUMBER_WORDS:
            found.append(_NUMBER_WORDS[token])
        elif token[0] in "〇一二三四五六七八九十百千万億":
            found.append(token)
    return tuple(found)


def _ascii_digit(ch: str) -> str:
    """Return the ASCII digit for a decimal digit of any script, another character as it is."""
    return str(unicodedata.decimal(ch)) if ch.isdecimal() else ch


def negated(text: str) -> bool:
    """Return whether `text` contains a negation that denies something.

    English and Spanish, the plain negation words of French, German, Portuguese, Italian and Russian, and
    the negation signs of Chinese, Japanese, Korean and Thai; other languages count as not negated. A
    leading "No," and phrases such as "can't wait" or "not only" do not count.

    >>> negated("Tom doesn't drive"), negated("I can't wait to drive")
    (True, False)
    """
    lowered = text.casefold().replace("’", "'")
    lowered = _NOT_NEGATIONS.sub(" ", _LEADING_NO.sub("", lowered))
    if not lowered.isascii() and _NEGATION_CHARS.search(lowered):
        return True
    return any(word.endswith("n't") or word in _NEGATION_WORDS for word in _WORD.findall(lowered))


_SAMPLE_CHARS = 4096
DATA_RUN = re.compile(r"[!-~]{120,}")
"""An unbroken run of visible ASCII that is no word of any language: an address, encoded bytes, minified code."""
_RUN_HEAD = 40


def is_binary_looking(text: str) -> bool:
    """Return whether `text` cannot be text: a tenth of it are control or replacement characters.

    Looks at no more than 12,288 characters: beginning, middle and end.
    """
    if len(text) > 3 * _SAMPLE_CHARS:
        middle = len(text) // 2
        text = text[:_SAMPLE_CHARS] + text[middle : middle + _SAMPLE_CHARS] + text[-_SAMPLE_CHARS:]
    odd = text.count("\ufffd")
    if not text.isprintable():
        odd += sum(1 for ch in text if unicodedata.category(ch) in ("Cc", "Cs") and ch not in "\t\n\r")
    return odd * 10 > len(text)


def shorten_runs(text: str) -> str:
    """Return `text` with its unbroken runs of data (`DATA_RUN`) cut to their beginnings: what a model is to read.

    >>> shorten_runs("See https://a.example/" + "x" * 200 + " now.")
    'See https://a.example/xxxxxxxxxxxxxxxxxxxxxx… now.'
    """
    return DATA_RUN.sub(lambda run: run[0][:_RUN_HEAD] + "…", text)


def cut(text: str, n: int = 80) -> str:
    """Return `text` in at most `n` characters on one line, an ellipsis in place of what was cut.

    Raises:
        ValueError: if `n` is less than 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    line = " ".join(text[: 4 * n + 64].split())
    whole = len(text) <= 4 * n + 64
    return line if whole and len(line) <= n else line[: n - 1] + "…"


CHARS_PER_TOKEN = 4
"""Latin text has about four characters a token in common vocabularies (OpenAI's rule of thumb:
https://help.openai.com/en/articles/4936856)."""


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text without knowing the model: four ASCII characters or one other.

    An over-estimate for accented text, so that a budget is kept rather than broken.

    Example:
        >>> count_tokens("twelve chars"), count_tokens("東京")
        (3, 2)
    """
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return math.ceil(plain / CHARS_PER_TOKEN) + (len(text) - plain)

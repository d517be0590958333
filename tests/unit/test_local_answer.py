"""The local answerer: it quotes with speaker and day, or abstains and says why and what came nearest."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st
from tests.table import each

from memforest.models import MS_MARCO
from memforest.ports import Answer, Answerer, AnswerEvidence
from memforest.reading.answer_local import (
    BY_WORDS,
    MAX_ITEMS,
    NAMES,
    QUOTES,
    LocalAnswerer,
    chances,
    logits_of,
    quoted,
    read_features,
    read_pieces,
    read_question,
    relevance_of,
    sentences,
    weights_for,
)
from memforest.reading.clauses import PASSAGE_CHARS
from memforest.records import QuestionPlan

REFERENCE = datetime(2026, 9, 1, tzinfo=timezone.utc)
MAY = datetime(2026, 5, 4, tzinfo=timezone.utc)
IDA = ("Ida",)
THRESHOLD = 0.3
"""Low enough for two pieces and a question of one word, whatever the weights are calibrated to."""


def day(year: int, month: int = 1, date: int = 1) -> datetime:
    """Return a UTC midnight."""
    return datetime(year, month, date, tzinfo=timezone.utc)


def said(quote: str, speaker: str = "Ida", on: datetime = MAY, **more: object) -> AnswerEvidence:
    """Return a turn as evidence."""
    told = {"text": f"{speaker}: {quote}", "quote": quote, "said": on, "start": on, "speaker": speaker}
    return AnswerEvidence(**(told | more))  # type: ignore[arg-type]


def ask(
    question: str, *evidence: AnswerEvidence, plan: QuestionPlan | None = None, **settings: object
) -> Answer:
    """Return the answer of a local answerer at `THRESHOLD`; without a plan to a question about Ida."""
    answerer = LocalAnswerer(**({"threshold": THRESHOLD} | settings))  # type: ignore[arg-type]
    asked = plan or QuestionPlan(entities=IDA)
    return asyncio.run(answerer.answer(question, plan=asked, reference=REFERENCE, evidence=evidence))


LOOM = said("I restored my loom and wove a scarf.")
KILN = said("My kiln cracked again, so no vases.", on=day(2026, 6, 1))
MOVED = said("We moved to Porto last week.", leads=True, value="porto")


def test_an_answer_is_a_quote_with_speaker_and_day() -> None:
    """Nothing is conjugated or composed; the piece is cited and the score told."""
    found = ask("What did Ida restore?", LOOM, plan=QuestionPlan(entities=IDA), threshold=0)
    assert found.text == '"I restored my loom and wove a scarf." - Ida, 4 May 2026'
    assert (found.cited, found.nearest, found.reason) == ((0,), None, "")
    assert found.score is not None
    assert 0 < found.score <= 1


def test_what_is_not_sure_alone_has_others_behind_it() -> None:
    """The likeliest first, each once, and the score is the chance that any of them is right; what is sure stands alone."""
    question, plan = "What did Ida restore?", QuestionPlan(entities=IDA)
    alone = ask(question, LOOM, plan=plan, threshold=0)
    both = ask(question, LOOM, LOOM, KILN, plan=plan, threshold=0)
    assert both.cited[0] == 0
    assert 1 not in both.cited  # each text once
    assert (both.text or "").startswith(alone.text or "?")
    many = ask(question, *(said(f"I restored the loom {name}.") for name in "abcdef"), plan=plan, threshold=0)
    assert len(many.cited) == QUOTES
    sure = [replace(one, logit=logit, relevance=0.5) for one, logit in ((LOOM, 9.0), (KILN, -9.0))]
    assert ask(question, *sure, plan=plan, reranker=MS_MARCO.model_id).cited == (0,)


def test_the_day_is_that_of_the_zone() -> None:
    """Late in the evening in London it is the next day in Tokyo."""
    late = datetime(2026, 5, 4, 20, tzinfo=timezone.utc)
    assert quoted("Good night", "Ida", late, ZoneInfo("Asia/Tokyo")) == '"Good night" - Ida, 5 May 2026'
    assert quoted("Good\nnight", "", late, timezone.utc) == '"Good night" - 4 May 2026'


@each(
    ("value", "front"),
    [("porto", "Porto. "), ("Lugo", ""), ("", ""), ("last week", "last week. ")],
)
def test_the_value_of_a_timeline_stands_in_front_as_the_quote_has_it(value: str, front: str) -> None:
    """One that was not said in these words does not."""
    found = ask("Where does Ida live now?", replace(MOVED, value=value), said("Bo lives in Faro.", "Bo"))
    assert found.text == f'{front}"We moved to Porto last week." - Ida, 4 May 2026'
    assert ask("Where did Ida move?", replace(MOVED, leads=False, value=value)).text in (
        None,
        '"We moved to Porto last week." - Ida, 4 May 2026',
    )


def test_a_question_for_yes_or_no_gets_the_words_that_were_said() -> None:
    """Whoever reads them can tell which it is."""
    plan = QuestionPlan("current", IDA, topic=("row",))
    found = ask(
        "Does Ida still row?", said("I stopped to row in spring.", leads=True, value="rowing"), plan=plan
    )
    assert found.text == '"I stopped to row in spring." - Ida, 4 May 2026'


@each(
    ("start", "end", "front"),
    [
        (day(2026, 4, 30), day(2026, 5, 1), "30 April 2026. "),
        (day(2026, 4, 30), None, "Since 30 April 2026. "),
        (day(2026, 4, 30), day(2026, 5, 3), "30 April 2026 – 2 May 2026. "),
        (day(2026, 5, 4), None, ""),
        (day(2026, 5, 4), day(2026, 6, 1), ""),
        (None, None, ""),
    ],
)
def test_a_stated_time_stands_in_front_where_it_is_asked_for(
    start: datetime | None, end: datetime | None, front: str
) -> None:
    """What states none has the day on which it was said behind it, and no other."""
    told = replace(LOOM, start=start, end=end)
    plan = QuestionPlan("when", IDA)
    quote = '"I restored my loom and wove a scarf." - Ida, 4 May 2026'
    found = ask("When did Ida restore the loom?", told, plan=plan, threshold=0.2)
    assert (found.text or "").replace("30 April – 2", "30 April 2026 – 2") == f"{front}{quote}"
    assert ask("What did Ida restore?", told, threshold=0.2).text == quote


def test_a_list_has_the_quotes_that_are_about_as_likely_once_each() -> None:
    """Up to `MAX_ITEMS`, best first; other questions get up to `QUOTES`."""
    songs = [
        said(f"I wrote a song about {what}.") for what in ["rain", "snow", "fog", "wind", "hail", "mist"]
    ]
    question, plan = "Which songs did Ida write?", QuestionPlan("list", IDA)
    found = ask(question, songs[0], songs[0], *songs[1:], KILN, plan=plan)
    assert found.cited == (0, 2, 3, 4, 5)[: len(found.cited)]
    assert 2 <= len(found.cited) <= MAX_ITEMS
    assert (found.text or "").startswith('"I wrote a song about rain." - Ida, 4 May 2026; "I wrote')
    assert ask(question, *songs, threshold=0.1).cited == tuple(range(QUOTES))


def test_of_a_long_turn_the_sentences_that_answer_are_quoted() -> None:
    """What is left out on either side is marked."""
    around = [f"The {n}th of the other tales goes on and on and on about nothing much." for n in range(20)]
    long = " ".join([*around[:9], "I restored my loom.", *around[9:]])
    text = ask("What did Ida restore?", said(long)).text or ""
    assert text.startswith('"… I restored my loom. The 9th')
    assert ' …" - Ida' in text
    assert len(text) < PASSAGE_CHARS + 60


@each(
    ("question", "quote"),
    [
        ("¿Qué instrumento toca Ida, la gaita gallega?", "Toco la gaita gallega desde niña."),
        ("Welches Fahrrad hat Ida repariert?", "Ich habe das rote Fahrrad repariert."),
        ("Ida的猫叫豆沙吗？", "我的猫叫豆沙，三个月大。"),
        ("Где Ida купила самовар?", "Я купила самовар в Туле."),
    ],
)
def test_every_language_is_quoted(question: str, quote: str) -> None:
    """As it was said, in front of a piece that says less of what is asked."""
    found = ask(question, said(quote), said("…", speaker="Bo"), threshold=0.4)
    assert found.text == f'"{quote}" - Ida, 4 May 2026'


def abstains(question: str, *evidence: AnswerEvidence, plan: QuestionPlan, **settings: object) -> Answer:
    """Return an answer that is none, after checking that it says why and names something to look at."""
    found = ask(question, *evidence, plan=plan, **settings)
    assert (found.text, found.cited) == (None, ())
    assert found.reason
    return found


def test_below_the_threshold_the_nearest_is_named() -> None:
    """With its score; at 0 it is answered all the same, at 1 nothing is."""
    question, plan = "Which violin teacher did Ida restore?", QuestionPlan(entities=IDA)
    none = abstains(question, LOOM, plan=plan, threshold=0.9)
    assert none.nearest == 0
    assert none.score is not None
    assert none.reason == f"the nearest evidence scores {none.score:.2f}, and an answer needs 0.90"
    assert ask(question, LOOM, threshold=0).cited == (0,)
    abstains("What did Ida restore?", LOOM, plan=plan, threshold=1)


@each(
    ("question", "plan", "reason"),
    [
        ("What did Ida say to Helga of the loom?", QuestionPlan(entities=IDA, mentions=("Ida", "Helga")), "Helga"),
        ("What did Ida do before the museum?", QuestionPlan("predecessor", IDA, anchor="the museum"), "'the museum'"),
        ("What did Bo restore?", QuestionPlan(entities=("Bo",)), "about the person and the time"),
        ("What did I restore?", QuestionPlan(entities=("Bo",)), "about the person and the time"),
        ("What did Ida restore in May 2025?",
         QuestionPlan(entities=IDA, start=day(2025, 5), end=day(2025, 6)), "about the person and the time"),
    ],
)  # fmt: skip
def test_what_nobody_said_is_not_answered(question: str, plan: QuestionPlan, reason: str) -> None:
    """A name or event that nothing mentions, another person, another time: the words around them do not help."""
    assert reason in abstains(question, LOOM, KILN, plan=plan, threshold=0).reason


def test_people_may_be_named_in_the_turn_before_or_in_the_statement() -> None:
    """Who says "I" must take part in the exchange, as the one who speaks or the one who is spoken to."""
    bo = QuestionPlan(entities=("Bo",))
    assert ask("What did Bo restore?", replace(LOOM, before=("Kim", "And Bo's plans?")), plan=bo).cited
    assert ask("What did Bo restore?", replace(LOOM, text="Bo restored a loom."), plan=bo).cited
    assert ask("What did I restore?", replace(LOOM, before=("Bo", "Well?")), plan=bo, threshold=0).cited
    abstains("What did Bo restore?", replace(LOOM, before=("Bo", "Well?")), plan=bo)
    abstains("What did Bo restore?", replace(LOOM, before=("Kim", "And Bo has plans.")), plan=bo)
    abstains("What did Bo restore?", said("Thanks, Bo! I restored a loom."), plan=bo)
    assert ask("Did Ida restore a loom?", LOOM, threshold=0).cited  # it says no more than the question
    both = QuestionPlan(entities=("Ida", "Bo"))
    assert ask("What did Ida and Bo restore?", replace(LOOM, before=("Bo", "Well?")), plan=both).cited
    abstains("What did Ida and Bo restore?", LOOM, plan=both)
    lund = QuestionPlan(entities=("Kim", "Lund"))
    abstains("Did Kim restore looms in Lund?", said("I do it in Lund.", before=("Kim", "I see.")), plan=lund)


def test_a_timeline_of_another_topic_does_not_lead() -> None:
    """Most of what the question is about must be spoken of in something that was found."""
    plan = QuestionPlan("current", IDA)
    abstains("What is the name of Ida's cat?", MOVED, KILN, plan=plan, threshold=0.65)
    cat = said("I could name a cat Oil.", speaker="Bo")
    found = ask("What is the cat of Ida?", replace(MOVED, value=""), cat, plan=plan)
    assert found.cited == (0,)


def test_a_time_binds_what_was_said_in_it_or_states_it() -> None:
    """An undated statement counts by the day it was said, and not for ever after; a dated one by its own day alone."""
    plan = QuestionPlan(entities=IDA, start=day(2026, 6, 10), end=day(2026, 6, 11))
    question = "What did Ida restore on 10 June?"
    abstains(question, LOOM, plan=plan)
    assert ask(question, replace(LOOM, said=day(2026, 6, 10), start=day(2026, 6, 10)), plan=plan).cited
    assert ask(question, replace(LOOM, start=day(2026, 6, 10), end=day(2026, 6, 11)), plan=plan).cited
    abstains(question, replace(LOOM, start=day(2026, 6, 11), end=day(2026, 6, 12)), plan=plan)
    abstains(
        question, replace(LOOM, said=day(2026, 6, 10), start=day(2026, 6, 3), end=day(2026, 6, 4)), plan=plan
    )
    state = replace(plan, kind="as_of")
    assert ask(question, LOOM, plan=state).cited


def test_who_asks_has_not_answered_and_a_reply_answers_what_it_replies_to() -> None:
    """The turn that repeats the question counts for the turn behind it."""
    plan, question = QuestionPlan(entities=IDA), "What will Ida plant in the greenhouse?"
    asks = said("What will you plant in the greenhouse, Ida?", speaker="Bo")
    reply = said("Okra, and two figs.", before=("Bo", asks.quote))
    assert ask(question, asks, reply, plan=plan).cited == (1,)
    abstains(question, asks, plan=plan, threshold=0)
    abstains(question, asks, replace(reply, before=("", "")), plan=plan)


def test_a_turn_that_only_says_the_question_again_is_no_answer() -> None:
    """An answer adds something."""
    plan = QuestionPlan(entities=IDA)
    again = said("Ida's restored loom.")
    assert ask("Which loom has Ida restored?", again, LOOM, plan=plan).cited == (1,)
    abstains("Which loom has Ida restored?", again, plan=plan, threshold=0)


def test_summaries_and_blanks_are_passed_over() -> None:
    """Nobody said a summary; what shows no word is no quote."""
    summary = replace(LOOM, quote="", speaker="", turns=9)
    assert ask("What did Ida restore?", *[summary] * 11, LOOM).cited == (11,)
    plan = QuestionPlan()
    assert "summaries" in abstains("What did Ida restore?", summary, plan=plan).reason
    assert abstains("Ida?", plan=plan).reason == "no evidence"
    abstains("Ida?", said("\u202e\u200b", speaker=""), plan=plan, threshold=0)


def known(
    question: str, *evidence: AnswerEvidence, plan: QuestionPlan | None = None
) -> list[dict[str, float]]:
    """Return what is known of pieces of evidence as answers."""
    asked = read_question(question, plan or QuestionPlan(entities=IDA))
    pieces = read_pieces(enumerate(evidence))
    return read_features(asked, pieces, pieces)


def test_forms_of_a_word_are_one_word_and_the_question_before_counts() -> None:
    """Of the content words, and of what somebody else asked; how many are said at all is known of every piece."""
    found = known(
        "Who repaired the gramophone cabinet?",
        said("The cabinets took days."),
        said("It was Bo.", before=("Bo", "Who is repairing your gramophones?")),
        said("It was Bo.", before=("Ida", "Who is repairing your gramophones?")),
    )
    assert [round(one["said"], 2) for one in found] == [0.33, 0.67, 0.0]
    assert [one["hits"] for one in found] == [1.0, 2.0, 0.0]
    assert [round(one["replied"], 2) for one in found] == [0.0, 0.67, 0.0]


@each(
    ("question", "has", "lacks"),
    [
        ("How many scarves did Ida weave?", "I wove three scarves.", "I wove scarves."),
        ("How long did Ida weave?", "It took two weeks.", "It took two looms."),
        ("When did Ida weave?", "I wove it on Tuesday.", "I wove it at home."),
        ("Why did Ida weave?", "Because it was cold.", "It is a scarf."),
        ("¿Cuándo vivió Ida allí?", "Viví allí en marzo.", "Viví allí con mi gato."),
    ],
)
def test_what_a_turn_lacks_of_what_is_asked_for(question: str, has: str, lacks: str) -> None:
    """A number, a time or a reason; what stands in a question is not told."""
    found = known(question, said(has), said(lacks), said(f"{has[:-1]}?"))
    assert [one["lacks"] for one in found] == [0, 1, 1]
    assert known("What did Ida weave?", said(lacks))[0]["lacks"] == 0


def test_names_and_the_words_of_a_date_are_no_content() -> None:
    """A date only where it was read as one; a question without content leaves it open."""
    dated = QuestionPlan(entities=IDA, start=day(2026, 3, 4), end=day(2026, 3, 5))
    assert read_question("What did Ida weave on 4 March?", dated).content == ("weav",)
    assert read_question("What did Ida weave on 4 March?", QuestionPlan(entities=IDA)).content == (
        "weav",
        "4",
        "march",
    )
    assert read_question("Who is Ida?", QuestionPlan(entities=IDA)).content == ()
    assert known("Who is Ida?", LOOM)[0]["said"] == 0.5


def test_pieces_compete_and_a_higher_logit_raises_the_chance() -> None:
    """With weights for words, for relevance too, and for each cross-encoder; a model without a fit has none."""
    for scorer in ("words", "relevance", MS_MARCO.model_id):
        weights, reads = weights_for(scorer), "@" in scorer
        assert weights is not None
        names = {*(BY_WORDS if scorer == "words" else NAMES), "bias"}
        assert set(weights) == ((names - {"replied", "lacks", "new"}) | {"logit"} if reads else names)
        one = known("What did Ida restore?", LOOM)
        alone, twice = (chances(logits_of(some, weights)) for some in (one, one * 2))
        assert 0 < twice[0] == twice[1] < alone[0] < sum(twice) < 1
        higher = chances(logits_of([{**one[0], "logit": 5.0}], weights))[0]
        assert (higher > alone[0]) == reads
        assert reads or chances(logits_of([{**one[0], "lacks": 1.0}], weights))[0] < alone[0]
        shares = relevance_of([-9.0, 0.0, 9.0], scorer)
        assert 0 < shares[0] < 0.05 < shares[1] < 0.95 < shares[2] < 1
    assert weights_for("callable:mine") is None


def test_a_cross_encoder_chooses_and_judges() -> None:
    """What it is sure of is answered though no words are shared; without relevance, or of another scale, it counts nothing."""
    question, plan = "What became of the pottery?", QuestionPlan(entities=IDA)

    def read(one: AnswerEvidence, logit: float, relevance: float | None = 0.3) -> AnswerEvidence:
        return replace(one, logit=logit, relevance=relevance)

    sure = ask(question, read(LOOM, -9.0), read(KILN, 9.0), reranker=MS_MARCO.model_id)
    assert sure.cited == (1,)
    unsure = abstains(question, read(LOOM, -9.0), read(KILN, -6.0), plan=plan, reranker=MS_MARCO.model_id)
    assert unsure.nearest == 1
    for relevance, model in ((None, MS_MARCO.model_id), (0.3, "callable:mine")):
        pieces = read(LOOM, -9.0, relevance), read(KILN, 9.0, relevance)
        assert ask("What did Ida restore?", *pieces, reranker=model, threshold=0).cited[0] == 0


def test_implements_the_port_and_is_deterministic() -> None:
    """The same answer every time."""
    port: Answerer = LocalAnswerer()
    runs = [
        asyncio.run(
            port.answer("What did Ida restore?", plan=QuestionPlan(), reference=REFERENCE, evidence=[LOOM])
        )
        for _ in range(3)
    ]
    assert runs[0].text
    assert runs == [runs[0]] * 3


moments = st.datetimes(timezones=st.just(timezone.utc))
texts = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            [
                "Who",
                "what",
                "Ida",
                "Bo",
                "loom",
                "kiln",
                "4",
                "¿Qué",
                "?",
                ".",
                "豆沙",
                "在哪里？",
                '"',
                "\u202e",
            ]
        ),
        max_size=12,
    ).map(" ".join),
)
plans = st.builds(
    QuestionPlan,
    kind=st.sampled_from(["simple", "current", "as_of", "predecessor", "successor", "since", "when", "list"]),
    entities=st.lists(st.one_of(st.just("Ida"), st.text(max_size=8)), max_size=2).map(tuple),
    anchor=st.one_of(st.none(), texts),
    start=st.one_of(st.none(), moments),
    end=st.one_of(st.none(), moments),
    mentions=st.lists(st.sampled_from(["Ida", "Porto", "豆沙"]), max_size=2).map(tuple),
)
pieces = st.builds(
    AnswerEvidence,
    text=texts,
    quote=texts,
    said=moments,
    start=st.one_of(st.none(), moments),
    end=st.one_of(st.none(), moments),
    before=st.tuples(texts, texts),
    leads=st.booleans(),
    value=texts,
)


@given(question=texts, plan=plans, evidence=st.lists(pieces, max_size=4), threshold=st.floats(0, 1))
def test_never_raises_and_cites_or_abstains(
    question: str, plan: QuestionPlan, evidence: list[AnswerEvidence], threshold: float
) -> None:
    """Any input gives one line that quotes what it cites, or none with a reason."""
    found = ask(question, *evidence, plan=plan, threshold=threshold)
    assert (found.text is None) == (not found.cited)
    assert (found.nearest is None) == (bool(found.cited) or not evidence)
    assert found.text or found.reason
    assert {*found.cited, found.nearest or 0} <= set(range(max(len(evidence), 1)))
    assert len((found.text or "").splitlines()) <= 1


def test_hostile_sizes_are_bounded() -> None:
    """A megabyte of question and evidence is read in part, and the answer stays short."""
    huge = said("I restored my loom " * 50_000, on=REFERENCE - timedelta(days=1))
    found = ask("What did Ida restore? " * 100, huge, threshold=0)
    assert len(found.text or found.reason) < 1_000


@given(st.text(max_size=200))
def test_sentences_lose_nothing_but_space(text: str) -> None:
    """Put together again they are the text."""
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_what_is_told_of_the_attribute_asked_for_needs_none_of_its_words() -> None:
    """Who moved to Porto lives there; of another topic a timeline says nothing where nobody speaks of it."""
    lives, rows = (
        replace(QuestionPlan("current", IDA), attribute=one, topic=(word,))
        for one, word in (("residence", "live"), (None, "row"))
    )
    assert (ask("Where does Ida live now?", MOVED, plan=lives).text or "").startswith("Porto. ")
    abstains("Where does Ida row now?", MOVED, plan=rows, threshold=0.65)


def test_a_score_just_below_the_threshold_is_not_told_as_enough() -> None:
    """It is rounded down: "0.70, and an answer needs 0.70" would be a riddle."""
    score = ask("What did Ida restore?", LOOM, threshold=0).score or 0.0
    plan = QuestionPlan(entities=IDA)
    told = abstains("What did Ida restore?", LOOM, plan=plan, threshold=score + 1e-6).reason
    assert f"scores {int(score * 100) / 100:.2f}," in told


@each(("ended", "both"), [(0.9, True), (0.1, False)])
def test_what_was_followed_is_quoted_with_what_followed_it(ended: float, both: bool) -> None:
    """So nobody reads the former value alone."""
    plan, first = QuestionPlan("current", IDA), said("I live in Leeds.")
    later = replace(said("Got the keys in York."), logit=-9.0, succeeds=0.9)
    read = replace(first, logit=9.0, ended=ended, relevance=0.3), replace(later, relevance=0.3)
    found = ask("Where does Ida live?", *read, plan=plan, reranker=MS_MARCO.model_id)
    assert found.cited == ((0, 1) if both else (0,))

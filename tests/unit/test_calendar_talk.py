"""Dated sentences as people say them to friends, assistants and support desks mean the days that a reader takes them to mean.

A row is the day on which it was said, the sentence, and the days that are right: ``2024-05-24`` is a day, ``2024-05`` a
month, ``2024`` a year, ``2024-05-03/2024-05-05`` the days from the first up to the second. ``+`` joins several dates,
``|`` stands between answers that are as good, and ``-`` is no date at all. The rules were written with the first set in
sight; the second was opened once they were done, and the third was written after that.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from importlib.util import find_spec

import pytest
from tests.table import each

from memforest.reading.date_phrases import find_dates
from memforest.reading.timestamps import date_languages
from memforest.reading.tokens import detect_language

Days = tuple[date, date]

FIRST = """
2024-05-16 ; Our flight leaves two Fridays from now, I can't wait. ; 2024-05-24
2023-06-14 ; They moved the viva to the Monday after next. ; 2023-06-26
2024-01-31 ; My contract runs out at the end of next month. ; 2024-02-21/2024-03-01 | 2024-02-20/2024-03-01 | 2024-02-29 | 2024-02
2025-11-03 ; Baby is due mid-March. ; 2026-03-11/2026-03-21 | 2026-03 | 2026-03-10/2026-03-20
2023-03-08 ; The exam board meets on the third of June. ; 2023-06-03
2024-02-07 ; She hasn't spoken to her brother since last summer. ; 2023-06/2023-09
2025-08-17 ; The neighbours' alarm went off again the night before last. ; 2025-08-15
2022-08-09 ; I tried to log in yesterday evening and got error 403. ; 2022-08-08
2024-12-10 ; I'm on call on Christmas Eve, sadly. ; 2024-12-24
2025-03-04 ; We plan to launch the app later this year. ; 2025 | 2025-03-04/2026-01-01 | 2025-03-05/2026-01-01
2025-05-02 ; I'm away between the 5th and the 9th. ; 2025-05-05/2025-05-10 | 2025-05-05/2025-05-09
2025-02-12 ; Management wants the migration done by Q3. ; 2025-07/2025-10 | 2025-07-01
2023-10-02 ; Over the weekend we repainted the hallway. ; 2023-09-30/2023-10-02
2024-03-13 ; Every Tuesday I take the late shift. ; -
2024-02-29 ; My passport expires in a year. ; 2025-02 | 2025-02-28 | 2025-03-01 | 2025
2025-01-01 ; Last night's fireworks scared the dog half to death. ; 2024-12-31
2025-09-30 ; Apparently the cheque bounced on the 26th. ; 2025-09-26
2024-11-05 ; I first met Tobias in the summer of 2017. ; 2017-06/2017-09
2023-08-28 ; I'm off the week after next. ; 2023-09-11/2023-09-18
2024-01-03 ; He passed away just before Christmas. ; - | 2023-12-25 | 2023-12-18/2023-12-25
2025-07-21 ; I've been vegan since the 1st of January. ; 2025-01-01
2024-08-30 ; It was a bank holiday last Monday so the parcel didn't ship. ; 2024-08-26
2022-11-30 ; Nothing worked at the office the whole of last week. ; 2022-11-21/2022-11-28
2023-07-19 ; I graduated ten years ago this month. ; 2013-07 | 2013
2024-09-05 ; I always get hay fever in May. ; -
2024-04-25 ; I'm halfway through "One Day in December", it's lovely. ; -
2023-02-20 ; The warranty is good until 14/11/2025. ; 2025-11-14
2024-10-14 ; Tickets go on sale this Friday at 10. ; 2024-10-18
2023-03-01 ; I handed in my notice on the last day of February. ; 2023-02-28
2024-11-29 ; Black Friday was a letdown this year. ; - | 2024 | 2024-11-29
2024-03-06 ; It took three days to fix the boiler. ; -
2025-02-03 ; My last day at Siemens is the 28th. ; 2025-02-28
2024-06-30 ; I'll be in Porto from the 4th to the 11th of July. ; 2024-07-04/2024-07-12
2023-04-17 ; Sat 6 May, 2pm, your place. ; 2023-05-06
2025-11-11 ; The lease started on 2023-05-01 and ends on 2026-04-30. ; 2023-05-01 + 2026-04-30
2024-05-07 ; back on monday, pls keep the plants alive ; 2024-05-13
2025-01-13 ; Deadline for the grant application: 31 Jan ; 2025-01-31
2024-07-24 ; A fortnight ago I could barely walk. ; 2024-07-10 | 2024-07-08/2024-07-15
2023-09-15 ; My parents got married in the seventies. ; 1970/1980
2023-09-15 ; I'll do it first thing Monday. ; 2023-09-18
2024-06-13 ; Our lease is up at the end of the year. ; 2024-12 | 2024-12-31 | 2024-10/2025-01 | 2024-09/2025-01
2024-06-13 ; He's been sober for 18 months. ; 2022-12 | 2022-12-13 | 2022-12-13/2024-06-14
2025-08-05 ; Wednesdays are pasta night. ; -
2022-12-27 ; I hope 2023 will be kinder to us. ; 2023
2022-12-27 ; Nothing's open until the 3rd. ; 2023-01-03
2024-02-14 ; I turned forty last Thursday. ; 2024-02-08
2023-01-09 ; I'd planned to quit in December but I chickened out. ; 2022-12 | -
2025-04-30 ; The day before yesterday there was a power cut. ; 2025-04-28
2024-11-18 ; We talked about this a couple of months ago. ; 2024-09 | 2024-09-18
2024-11-18 ; He'll be out of hospital in ten days or so. ; 2024-11-28 | -
2025-06-27 ; I signed up on June 3 2024 and was charged again on June 3 2025. ; 2024-06-03 + 2025-06-03
2025-06-27 ; My visa appointment is on Tuesday, July 8. ; 2025-07-08
2023-10-31 ; Next summer we want to cycle the Danube. ; 2024-06/2024-09
2024-01-24 ; I saw her in town earlier this week. ; 2024-01-22/2024-01-24 | 2024-01-22/2024-01-25 | 2024-01-22/2024-01-29
2024-01-24 ; The second half of 2022 was rough. ; 2022-07/2023-01
2024-01-24 ; The rent is due on the first of each month. ; -
2025-03-28 ; Three Sundays ago the choir sang here. ; 2025-03-09
2025-03-28 ; The second Tuesday in April is the parents' evening. ; 2025-04-08
2024-09-21 ; She had surgery in late August. ; 2024-08-21/2024-09-01 | 2024-08
2024-03-12 ; Tengo cita con el médico el 21 de marzo. ; 2024-03-21
2024-03-12 ; El contrato empezó el 5 de febrero de 2022. ; 2022-02-05
2024-03-12 ; Pasado mañana operan a mi padre. ; 2024-03-14
2024-03-12 ; Todos los lunes voy al gimnasio. ; -
2024-03-12 ; El recibo vence a finales de mes. ; 2024-03 | 2024-03-21/2024-04-01 | 2024-03-31
2024-02-20 ; Der Termin ist am 5. März 2024. ; 2024-03-05
2024-02-20 ; Wir haben am 14. Juni 2019 geheiratet. ; 2019-06-14
2024-02-20 ; Am 1. August 2025 ziehen wir nach Köln um. ; 2025-08-01
2024-02-20 ; Le rendez-vous est fixé au 17 avril 2024. ; 2024-04-17
2024-02-20 ; Mon colis a été livré le 22/02/2024. ; 2024-02-22
2025-12-31 ; My gym membership starts tomorrow. ; 2026-01-01
2024-08-19 ; We last spoke on the phone on Thursday, I think. ; 2024-08-15
2024-08-19 ; I've worked here since March. ; 2024-03
2024-08-19 ; The concert on Sept 14 got cancelled. ; 2024-09-14
2025-01-20 ; This month's bill is twice what it was in December. ; 2024-12 | 2024-12 + 2025-01
2025-01-20 ; Our office is at 2024 Harbor Road. ; -
"""

SECOND = """
2024-05-16 ; The plumber is coming a week on Tuesday. ; 2024-05-28
2024-02-29 ; Back in '19 I was still driving that awful Corsa. ; 2019
2025-04-22 ; We're getting the keys the first weekend in May. ; 2025-05-03/2025-05-05
2024-10-31 ; The scan is on the 3rd, remind me. ; 2024-11-03
2024-09-10 ; I'll send you the draft by the end of the week. ; 2024-09-15 | 2024-09-13 | 2024-09-09/2024-09-16 | 2024-09-13/2024-09-16
2023-11-20 ; A technician should get back to you in the next couple of weeks. ; 2023-11-20/2023-12-04 | 2023-11-21/2023-12-05 | 2023-11-27/2023-12-11 | 2023-11-20/2023-12-05
2024-07-06 ; Six months ago today I quit smoking. ; 2024-01-06
2026-03-11 ; Mum's hosting a barbecue this coming Saturday. ; 2026-03-14
2023-05-24 ; The bin collection moves to tomorrow week. ; 2023-06-01
2024-06-01 ; He took over the bakery in early 2021. ; 2021-01/2021-05 | 2021-01/2021-04 | 2021
2024-12-29 ; Booked: Jan 5-8, Hotel Lindner. ; 2025-01-05/2025-01-09
2024-04-15 ; We adopted Biscuit half a year ago. ; 2023-10 | 2023-10-15
2023-10-02 ; I ran into your sister the other day at Lidl. ; -
2024-04-02 ; May the baker moved to Leeds. ; -
2023-12-31 ; Tomorrow I'm starting dry January. ; 2024-01-01 | 2024-01-01 + 2024-01
2024-12-30 ; The shop reopens on Thursday. ; 2025-01-02
2024-03-31 ; We got home late on Friday. ; 2024-03-29
2023-08-28 ; School starts again a week from today. ; 2023-09-04
2024-05-29 ; I need you to call me the day after tomorrow about the mortgage. ; 2024-05-31
2024-06-18 ; The wedding got pushed from June 22 to August 10. ; 2024-06-22 + 2024-08-10 | 2024-08-10
2025-07-21 ; I've had this cough for three weeks now. ; 2025-06-30/2025-07-07 | 2025-06-30 | 2025-06-30/2025-07-21 | 2025-06-30/2025-07-22
2026-03-15 ; My sabbatical ran from September 2024 until February 2025. ; 2024-09/2025-03
2024-02-28 ; The audit is tomorrow and I haven't slept. ; 2024-02-29
2025-06-11 ; When I was seven we spent a whole August in Brittany. ; -
2025-10-08 ; They only deliver on Mondays and Thursdays. ; -
2024-01-15 ; April and June are coming over for tea. ; -
2025-12-05 ; We'll know more in early January. ; 2026-01-01/2026-01-11 | 2026-01
2024-10-14 ; The last Sunday of this month the clocks change. ; 2024-10-27
2025-05-19 ; The kids break up for summer on the 18th of July. ; 2025-07-18
2024-03-06 ; The package was supposed to arrive three days ago. ; 2024-03-03
2022-05-13 ; We closed on the house at the beginning of April. ; 2022-04-01/2022-04-11 | 2022-04
2024-12-02 ; We spent Thanksgiving at my in-laws'. ; - | 2024-11-28
2023-04-17 ; On Saturday the 22nd there's a street party. ; 2023-04-22
2024-08-12 ; I was born on 9 March 1988. ; 1988-03-09
2024-05-07 ; the meeting's been moved to 3pm ; -
2024-05-07 ; see u tmrw ; 2024-05-08
2025-01-13 ; Mine was delivered on Dec 23rd, and by New Year's Eve it had died. ; 2024-12-23 + 2024-12-31
2024-07-24 ; In a fortnight we fly to Oslo. ; 2024-08-07 | 2024-08-05/2024-08-12
2023-09-15 ; It must have been around 2008. ; 2008 | -
2024-06-13 ; Two summers ago I hiked the Dolomites. ; 2022-06/2022-09
2024-06-13 ; Last Tuesday's update broke the export. ; 2024-06-11 | 2024-06-04
2025-08-05 ; My next shift is Thursday night. ; 2025-08-07
2025-08-05 ; We rescheduled for Wednesday of next week. ; 2025-08-13
2022-12-27 ; The fence came down on Boxing Day. ; 2022-12-26
2024-02-14 ; In the 1990s nobody locked their doors here. ; 1990/2000
2024-02-14 ; The course runs every other Saturday from March to May. ; - | 2024-03/2024-06
2023-01-09 ; Her flight lands at 6:40 on Thursday morning. ; 2023-01-12
2025-04-30 ; Inspection's next month, on the 12th. ; 2025-05-12 | 2025-05-12 + 2025-05
2024-11-18 ; I've got a dentist appointment a week from Thursday. ; 2024-11-28
2024-11-18 ; The Sunday Times ran a piece on our village. ; -
2025-06-27 ; The outage lasted from Monday evening to Tuesday noon. ; 2025-06-23/2025-06-25 | 2025-06-23 + 2025-06-24
2023-05-31 ; We moved in exactly a year ago. ; 2022-05-31 | 2022-05 | 2022
2023-10-31 ; Last winter the pipes froze. ; 2022-12/2023-03
2024-01-24 ; Earlier today the app logged me out three times. ; 2024-01-24
2024-01-24 ; I paid the invoice on 03/04/2023. ; -
2025-03-28 ; I'm seeing the physio again Monday week. ; 2025-04-07
2025-03-28 ; Since Tuesday my knee has been swollen. ; 2025-03-25
2024-09-21 ; We leave a week today. ; 2024-09-28
2024-09-21 ; He said he'd come on Sunday. ; - | 2024-09-22
2024-03-12 ; Anteayer se nos rompió la caldera. ; 2024-03-10
2024-03-12 ; La semana que viene viajo a Lima. ; 2024-03-18/2024-03-25
2024-03-12 ; Nos conocimos hace tres años. ; 2021 | 2021-03 | 2021-03-12
2024-03-12 ; Llegué a Madrid el viernes pasado por la noche. ; 2024-03-08
2024-03-12 ; Vuelvo el 30/03/2024. ; 2024-03-30
2024-02-20 ; Der Vertrag läuft bis zum 31.12.2025. ; 2025-12-31
2024-02-20 ; Die Rechnung vom 03.04.2023 ist noch offen. ; 2023-04-03
2024-02-20 ; J'ai commencé le 3 septembre 2018. ; 2018-09-03
2024-02-20 ; Nous nous sommes mariés le 1er juin 2013. ; 2013-06-01
2024-02-20 ; Mon bail se termine le 30 novembre 2026. ; 2026-11-30
2024-08-19 ; Yesterday afternoon, at 5, I finally beat the boss. ; 2024-08-18
2024-08-19 ; Ordered 12/08, still nothing. ; -
2024-08-19 ; Looking forward to the bank holiday weekend. ; -
2025-01-20 ; That storm in November took half our roof off. ; 2024-11
2025-01-20 ; My grandma lived to be 96, she saw 1945 with her own eyes. ; 1945
2025-01-20 ; The Windows 2000 machine finally died. ; -
"""

THIRD = """
2025-02-18 ; Our heating engineer comes round a week tomorrow. ; 2025-02-26
2024-12-27 ; Hand the keys in by the 6th of January at the latest. ; 2025-01-06
2023-11-02 ; My knee operation is three weeks on Monday. ; 2023-11-27
2024-08-31 ; I sent the form back at the start of last week. ; 2024-08-19/2024-08-21 | 2024-08-19 | 2024-08-19/2024-08-22 | 2024-08-19/2024-08-26
2026-01-05 ; She joined us in the autumn of '22. ; 2022-09/2022-12
2022-04-30 ; The course starts on the second Monday of next month. ; 2022-05-09
2024-02-29 ; Four years ago today we met in Lyon. ; 2020-02-29
2025-06-02 ; I'll be on leave from Wednesday until the end of June. ; 2025-06-04/2025-07-01 | 2025-06-04 + 2025-06-21/2025-07-01 | 2025-06-04 + 2025-06-20/2025-07-01 | 2025-06-04 + 2025-06-30
2023-07-21 ; In the middle of the night on Tuesday someone rang the bell. ; 2023-07-18
2024-05-14 ; The invoice dated 2 April still isn't paid. ; 2024-04-02
2025-10-26 ; Daylight saving ended today, right. ; 2025-10-26
2023-03-20 ; We had our last lesson the Wednesday before last. ; 2023-03-08 | 2023-03-15
2024-11-12 ; My brother is flying in the day before Christmas Eve. ; 2024-12-23
2022-08-03 ; The festival was on the last weekend of July. ; 2022-07-30/2022-08-01
2025-09-16 ; Honestly, 2020 was a write-off. ; 2020
2024-06-24 ; I cancelled the subscription some time in the spring. ; 2024-03/2024-06
2023-12-04 ; You can reach me until Thursday lunchtime. ; 2023-12-07
2025-01-29 ; Mira lost her job ten days ago. ; 2025-01-19
2024-09-02 ; Swim practice is Tuesdays and Fridays at 6. ; -
2024-09-02 ; A few weeks back I had a nasty fall. ; 2024-07-29/2024-08-19 | - | 2024-08-12/2024-08-19 | 2024-08-05/2024-08-19
2025-03-14 ; June from accounting wants the receipts. ; -
2023-05-08 ; We watched "The Last Days of August" yesterday. ; 2023-05-07
2022-10-19 ; My tenancy began in mid-September and I've had no hot water since. ; 2022-09-11/2022-09-21 | 2022-09 | 2022-09-10/2022-09-20
2024-04-08 ; Tomorrow fortnight is the hearing. ; 2024-04-23
2023-08-11 ; Can you push it to the Thursday after? ; -
2025-12-30 ; We're away over New Year, back on the 4th. ; 2026-01-04 | 2026-01-04 + 2026-01-01 | 2026-01-04 + 2025-12-31/2026-01-02
2024-07-17 ; The tenth of August works for me. ; 2024-08-10
2024-07-17 ; I retired at the end of 2015. ; 2015-09/2016-01 | 2015-12 | 2015-12-31 | 2015-10/2016-01 | 2015
2023-02-01 ; I was on hold for forty minutes this morning. ; 2023-02-01
2022-06-20 ; The second week of July suits us best. ; 2022-07-08/2022-07-15 | 2022-07-11/2022-07-18 | 2022-07-04/2022-07-11
2024-10-03 ; Our anniversary trip was the 14th to the 17th of September. ; 2024-09-14/2024-09-18
2025-05-25 ; I haven't slept properly since the beginning of the month. ; 2025-05-01/2025-05-11 | 2025-05-01 | 2025-05 | 2025-05-01/2025-05-26
2024-01-08 ; As a student I waited tables every December. ; -
2023-09-29 ; The refund should arrive within five working days. ; -
2025-07-03 ; She's due any day now, officially July 11th. ; 2025-07-11
2024-03-19 ; El vuelo sale el jueves a las ocho. ; 2024-03-21
2024-03-19 ; Empecé a trabajar aquí en enero de 2020. ; 2020-01
2024-03-19 ; Dentro de tres días nos entregan las llaves. ; 2024-03-22
2024-03-19 ; Der Mietvertrag beginnt am 1. Mai 2024. ; 2024-05-01
2024-03-19 ; Elle est née le 12 décembre 1990. ; 1990-12-12
"""

LEFT_OUT = {"My grandma lived to be 96, she saw 1945 with her own eyes."}
"""Sentences whose dates are not found."""


def rows(table: str) -> list[tuple[str, ...]]:
    """Return the fields of each row."""
    return [tuple(field.strip() for field in line.split(" ; ")) for line in table.strip().splitlines()]


def day(text: str) -> date:
    """Return the first day of what is written to the day, month or year."""
    year, month, number = (*map(int, text.split("-")), 1, 1)[:3]
    return date(year, month, number)


def meant(text: str) -> Days:
    """Return the days that a row names."""
    first, bar, last = text.strip().partition("/")
    if bar:
        return day(first), day(last)
    start = day(first)
    length = first.count("-")
    if length == 2:
        return start, start + timedelta(days=1)
    return start, date(start.year + 1, 1, 1) if length == 0 else date(
        start.year + start.month // 12, start.month % 12 + 1, 1
    )


def answers(text: str) -> list[set[Days]]:
    """Return the sets of dates of which any is right."""
    return [
        set() if one.strip() == "-" else {meant(each) for each in one.split("+")} for one in text.split("|")
    ]


@each(("said", "text", "right"), [*rows(FIRST), *rows(SECOND), *rows(THIRD)])
def test_a_sentence_means_these_days(said: str, text: str, right: str) -> None:
    """Its dates are those that a reader takes it to mean; where nobody can tell, there are none."""
    languages = date_languages(text, detect_language(text))
    if "mul" in languages and find_spec("dateparser") is None:
        pytest.skip("needs the extra `languages`")
    moment = datetime.combine(date.fromisoformat(said), datetime.min.time(), timezone.utc) + timedelta(
        hours=11
    )
    found = {(one.start.date(), one.end.date()) for one in find_dates(text, moment, timezone.utc, languages)}
    assert found in ([set()] if text in LEFT_OUT else answers(right))

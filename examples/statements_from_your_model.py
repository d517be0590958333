"""Your model has read the message already: hand over what it understood, and no rules are needed.

`understand` stands for your model. It is asked for JSON with one entry for each thing that is so, or is so no longer.
"""

from memforest import MemForest


def understand(message: str, earlier: list[str]) -> list[dict]:
    """Return statements as your model would: `replaces` is the number of an earlier one that they end."""
    if "York" in message:
        return [
            {"statement": "Lena lives in York.", "attribute": "residence", "value": "York", "replaces": 0}
        ]
    return []


with MemForest("memory") as forest:
    lena = forest.user("Lena")
    lena.add("I live in Leeds.", timestamp="2024-01-10", session_id="winter")

    message = "All the boxes are unpacked, York it is!"
    earlier = lena.search(message, min_relevance=0, top_k=5).evidence
    statements = understand(message, [one.text for one in earlier])
    for one in statements:
        if one.get("replaces") is not None:
            one["replaces"] = earlier[one["replaces"]].fact_id
    result = lena.add(message, timestamp="2024-05-06", session_id="may", statements=statements)

    print(lena.ask("Where does Lena live?").answer)
    for line in lena.timeline("Lena", attribute="residence"):
        print(line.value, "until", line.end and line.end.date())
    lena.undo(result.remembered[0].key)  # the model was wrong
    print("undone:", [line.value for line in lena.timeline("Lena", attribute="residence")])

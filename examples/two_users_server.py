"""Two people's memories on one server, over REST; a key of one person sees that person alone.

Start the server and make a key for each person first:

    memforest --dir memories keys create ana-app --user ana
    memforest --dir memories keys create bo-app --user bo
    memforest --dir memories serve

Then: MEMFOREST_URL=http://127.0.0.1:8420 ANA_KEY=mfk_... BO_KEY=mfk_... python two_users_server.py
"""

import json
import os
from urllib.error import HTTPError
from urllib.request import Request, urlopen

URL = os.environ.get("MEMFOREST_URL", "http://127.0.0.1:8420")


def post(path: str, key: str, body: dict) -> dict:
    """Send JSON to the server and return its answer."""
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    with urlopen(Request(f"{URL}/v1/users{path}", json.dumps(body).encode(), headers), timeout=30) as reply:
        return json.load(reply)


ana, bo = os.environ["ANA_KEY"], os.environ["BO_KEY"]
post("/ana/messages", ana, {"content": "I moved to Porto.", "timestamp": "2026-05-04"})
post("/bo/messages", bo, {"content": "I live in Bergen.", "timestamp": "2026-05-04"})

for user, key in (("ana", ana), ("bo", bo)):
    found = post(f"/{user}/search", key, {"question": f"Where does {user} live?", "top_k": 1})
    print(user, "|", found["evidence"][0]["text"])
try:
    post("/ana/search", bo, {"question": "Where does Ana live?"})
except HTTPError as error:
    print("Bo asks for Ana:", error.code)

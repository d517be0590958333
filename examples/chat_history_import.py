"""Bring in what other programs exported, look first, and ask about it.

python chat_history_import.py chatgpt-export.zip conversations.json "WhatsApp Chat with Bo.txt"
"""

import sys

from memforest import InputError, MemForest


def main(files: list[str], directory: str = "memory") -> None:
    """Import files into the memory of Ana."""
    with MemForest(directory) as forest:
        ana = forest.user("Ana")
        for file in files:
            try:
                [seen] = ana.import_file(file, dry_run=True).files
            except InputError as error:
                print(f"{file}: not read: {error}")
                continue
            print(f"{file}: {seen.format}, {seen.sessions} sessions, {seen.turns} turns")
            print("  left out:", dict(seen.left_out) or "nothing")
            result = ana.import_file(file)  # the same file again changes nothing
            print("  new turns:", result.memories[0].turns_added)
            for problem in result.problems:
                print("  could not be read:", problem)
        print("stored:", ana.stats().turns, "turns,", ana.stats().facts, "facts")
        for one in ana.search("Where do I live?", top_k=3):
            print(one.said.date(), one.speaker, "|", one.text)


if __name__ == "__main__":
    main(sys.argv[1:])

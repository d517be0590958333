"""The temporal-state benchmark: generated timelines, the chats that tell them, and the questions."""

"""TiMem: memories by the calendar, from segment and session to day, week and month, and recall by how much a question needs."""

"""What is searched: turns, facts and trees of a memory as arrays, and the scores, timelines and filters over them."""

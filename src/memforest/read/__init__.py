"""What answers from a memory: questions, evidence, answers, timelines, views, and checks."""

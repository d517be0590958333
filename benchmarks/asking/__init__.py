"""The benchmark of keyless answers: conversations of three domains with questions and their answers."""

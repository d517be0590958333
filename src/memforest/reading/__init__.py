"""What is read out of text: dates, sentences, names, states, plans of questions, by rules or by a chat model."""

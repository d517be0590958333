"""Looking at one memory without a question: views, trees, verification, repair."""

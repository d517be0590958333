"""Language tools that several rooms share: sentences, words, names, phrases, and what a statement says of whom."""

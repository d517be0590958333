"""Doubles for tests of code that uses memforest: chat models, an embedder, a clock and an HTTP endpoint."""

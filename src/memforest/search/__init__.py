"""Shared tools of all indexes: snapshots, lexical and dense scoring, token budgets."""

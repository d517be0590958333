"""What every index searches with: snapshots, lexical and dense legs, budgets."""

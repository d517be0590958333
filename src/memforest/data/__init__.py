"""Data files of the package: vocabulary, language tables, the demo."""

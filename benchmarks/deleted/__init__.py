"""Whether what was deleted is gone: a scanner of files and a counter of rows that know nothing of the package."""

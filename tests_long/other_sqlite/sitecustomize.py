"""Puts another SQLite in the place of Python's own, in the test run and in every process that a test starts.

`make test-long` puts this directory on PYTHONPATH and names the module: MEMFOREST_TEST_SQLITE=pysqlite3.
"""

import importlib
import os
import sys

if name := os.environ.get("MEMFOREST_TEST_SQLITE"):
    sys.modules["sqlite3"] = importlib.import_module(name)
    sys.modules["sqlite3.dbapi2"] = importlib.import_module(f"{name}.dbapi2")

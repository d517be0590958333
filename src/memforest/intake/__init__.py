"""Ingest jobs: many sessions of many users, received at once and made memory of in the background."""

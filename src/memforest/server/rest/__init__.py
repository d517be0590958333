"""The REST interface and the facades for clients of other memories."""

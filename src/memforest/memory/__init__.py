"""What users of the package hold: forests of many users, one memory of each, their verbs, options and files."""

"""The command line: data to stdout, words to stderr; exit 0 fine, 1 it failed, 2 wrong usage or configuration."""

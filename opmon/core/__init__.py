"""Arithmetic on values: no clock, network, database, logging or randomness; time arrives as an argument."""

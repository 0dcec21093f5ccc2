"""Getting an exposition from a target: bytes with limits and a deadline, and the two lanes of a scrape."""

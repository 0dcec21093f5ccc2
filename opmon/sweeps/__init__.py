"""Benchmark results into cells: one reader a tool, chosen from the content. Pure: text in, cells out."""

"""A simulated vLLM server that knows its own true occupancy: for the demo and the tests, never for the product.

Contains a model of how an engine books its metrics, not of how fast any real card is. Nothing here imports the rest
of opmon.
"""

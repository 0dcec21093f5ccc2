"""opmon keeps the distribution of running concurrency of a language-model server and says what it means.

Contains the version and nothing else: importing the package must stay cheap.
"""

__version__ = "0.1.0"

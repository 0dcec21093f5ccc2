"""What the browser gets: templates, styles and ES modules, complete without any network but this server.

Contains no Python but this line; the pages are put together in `opmon.api`.
"""

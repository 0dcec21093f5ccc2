"""The HTTP surface: the API under `/api/v1`, health, `/metrics` and the pages.

Contains no arithmetic and no SQL: every number comes from `opmon.reports`.
"""

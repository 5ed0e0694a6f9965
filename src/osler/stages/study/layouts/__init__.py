"""Layouts of a study's main tables: plain, or as in a paper."""

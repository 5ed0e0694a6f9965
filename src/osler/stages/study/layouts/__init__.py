"""Layouts of the main tables of a study: plain, or as in a paper."""

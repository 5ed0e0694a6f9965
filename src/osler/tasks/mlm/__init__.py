"""Masked language modelling as data: what a vocabulary marks, where words begin, and which tokens are masked."""

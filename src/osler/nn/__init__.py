"""Torch modules: packed batches, any Hugging Face encoder run packed, heads, and the model that joins them.

This file imports nothing: `osler.nn.cost` and the names of heads must stay usable where torch is not installed.
"""

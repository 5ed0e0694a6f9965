"""Torch modules: packed batches, Hugging Face encoders that run on them, heads, and the model that combines them.

This file imports nothing: `osler.nn.cost` and the names of heads must be usable without torch.
"""

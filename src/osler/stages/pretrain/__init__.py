"""Pretrain an encoder on a corpus."""

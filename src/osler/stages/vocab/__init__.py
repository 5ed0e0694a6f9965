"""A corpus to a vocabulary: learn sub-words and write a stock Hugging Face tokenizer folder."""

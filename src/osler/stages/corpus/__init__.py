"""Raw sources to a clean corpus: read, repair, filter, remove duplicates, write Parquet shards and a card."""

"""A fake official distribution, for a road that can be walked before the data arrive."""

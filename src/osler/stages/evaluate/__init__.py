"""A bundle on a split of a task to metrics."""

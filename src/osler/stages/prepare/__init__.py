"""Official files to a task artifact."""

"""Fine-tune an encoder on tasks."""

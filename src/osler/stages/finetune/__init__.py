"""An encoder and tasks to a bundle of heads."""

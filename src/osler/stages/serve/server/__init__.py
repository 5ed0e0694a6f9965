"""The REST service: the annotation engine behind HTTP. Needs the extra `serve`; nothing outside this package imports FastAPI."""

"""The page at / of the service: plain HTML, CSS and JavaScript under `static/`, and the routes for the page alone."""

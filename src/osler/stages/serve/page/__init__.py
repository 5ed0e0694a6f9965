"""The page at / of the service: plain HTML, CSS and JavaScript under `static/`, and the routes that only the page needs."""

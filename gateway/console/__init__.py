"""The console: a JSON API under /console/api and the static page that is its first user."""

"""The part of the report that is explored: linked charts drawn by Bokeh, from plain data."""

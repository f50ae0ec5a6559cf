"""Pages: HTML and Markdown."""

"""The report of a study: tables, figures, sentences and a page. publish.py lists them: start there."""

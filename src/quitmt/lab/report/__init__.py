"""What a study leaves behind: rows, tables, figures, sentences, and the page that has them all."""

"""The lab: sample pools once, replay every rule on them, evaluate, and report (docs/lab.md).

pipeline.py    from a study to its results: start here
frames.py      the arrays that everything computes with
rows.py        the numbers that tables, figures and sentences show
study/         what the user asks for: settings, their file, test sets
pools/         expensive results, which are kept: pools, rerankers' scores, metrics' scores
replay/        what every rule would have done, how much that costs, and how much it loses
paper/         the paper's own numbers, for columns beside ours
report/        tables, figures, sentences and a page
drawing.py     the style of all figures
"""

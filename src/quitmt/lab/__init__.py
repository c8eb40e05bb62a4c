"""The lab: sample pools once, replay every rule on them, evaluate, and report (docs/lab.md).

pipeline.py    from a study to its results: start here
frames.py      the arrays that everything computes with
rows.py        the numbers that tables, figures and sentences show
study/         what is asked for: settings, their file, test sets
pools/         what costs much and is kept: pools, what rerankers make of them, what metrics say
replay/        what every rule would have done, and what that costs and loses
paper/         the QUIT study's own numbers, to stand beside ours
report/        what is left behind: tables, figures, sentences, a page
"""

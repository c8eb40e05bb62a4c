"""Functions of a user, by module:attribute. Their code is part of signatures: do not edit them."""


def common(hypothesis, reference):
    return len(set(hypothesis.split()) & set(reference.split())) / (1 + len(hypothesis.split()))


def common_of_three(source, hypothesis, reference):
    return common(hypothesis, reference) - abs(len(source) - len(hypothesis)) / 1000


def nearness(source, candidate):
    return -abs(len(source) - len(candidate))


def last_word(text):
    return text.split()[-1] if text.split() else None

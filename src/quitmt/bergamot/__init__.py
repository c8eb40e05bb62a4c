"""Reads and runs Firefox/Bergamot translation models (Marian files) in numpy and numba, without torch.

    binary → architecture → network (kernels, microkernel) → output → sampling (trie) or beam

Each row's result is the same to the last bit whatever other rows are in the batch: see ``microkernel``.
"""

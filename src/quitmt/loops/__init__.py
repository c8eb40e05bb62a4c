"""Threads and event loops: the one room for what goes from one to the other.

| module | what it is for |
|---|---|
| `faults` | what code of others may raise, and how the rest gets through an event loop |
| `mailbox` | from any thread to a coroutine |
| `call` | a blocking call in a thread that nobody has to wait for |
| `background` | an event loop in a thread of its own |
| `iterate` | plain iteration over an async iterator |
| `waiting` | plain code that waits for async functions |
"""

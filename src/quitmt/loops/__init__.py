"""Threads and event loops, and all communication between them.

| module | purpose |
|---|---|
| `faults` | exceptions of user code, and their way through an event loop |
| `mailbox` | messages from any thread to a coroutine |
| `call` | a blocking call from a coroutine, in a thread |
| `background` | an event loop in its own thread |
| `iterate` | plain iteration over an async iterator |
| `waiting` | plain code that waits for async functions |
"""

"""OpenAI-compatible servers: a client that does not give up easily, and what it says and hears."""

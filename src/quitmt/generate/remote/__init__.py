"""A resilient client for OpenAI-compatible servers, and the format of their requests and answers."""

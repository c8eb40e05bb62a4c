"""What costs much and is kept: pools, what rerankers make of them, and what metrics say of their candidates."""

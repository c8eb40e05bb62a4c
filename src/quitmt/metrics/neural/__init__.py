"""What the scoring models are made of: checkpoints, encoders, heads, and batches of them. Needs torch."""

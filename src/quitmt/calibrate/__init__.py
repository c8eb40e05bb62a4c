"""Which rule, at which threshold, keeps a guarantee: replays on recorded pools, and what they prove."""

"""Which rule, at which threshold, keeps a promise: replays on recorded pools, and what they prove."""

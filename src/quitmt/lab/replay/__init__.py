"""Rules on recorded pools: what they would have done, what that costs and loses; and the same rules run live."""

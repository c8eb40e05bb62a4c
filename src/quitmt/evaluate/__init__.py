"""How good translations are, and whether two systems are as good as each other. Only here are references seen."""

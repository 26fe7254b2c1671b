"""The scoreboard: workloads, peers, and one command (`python -m bench`) that compares them."""

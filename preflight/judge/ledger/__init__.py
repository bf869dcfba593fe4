"""What was judged: findings, the ledger of cells, waivers, and what keeps a job from starting."""

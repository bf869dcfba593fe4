"""What a check of mesh, bench or training is handed."""

"""What do manifests and compose files ask for, which name containers instead of commands?"""

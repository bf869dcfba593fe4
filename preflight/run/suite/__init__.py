"""How do the checks run: pytest collects them, and a session gives them facts?"""

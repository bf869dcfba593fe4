"""What do all lines together tell that no single one says?"""

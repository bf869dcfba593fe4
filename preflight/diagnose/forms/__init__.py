"""How does whatever a log was packed, bundled or encoded in become lines of text?"""

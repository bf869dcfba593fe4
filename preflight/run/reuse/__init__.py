"""What of an earlier run's measurements holds for this one, and how is it kept?"""

"""What the owners of launch files say of them, where they are installed: the parser that will read them in the job."""

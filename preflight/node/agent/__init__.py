"""What keeps a node safe while we are on it: loader, keeper, wire, children."""

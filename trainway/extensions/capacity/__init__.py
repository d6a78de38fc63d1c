"""Find the capacity that is available, with its zone, time, and price, buy it, and write it into a platform file."""

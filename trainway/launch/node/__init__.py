"""What a launcher sends to the nodes beside a job. Each file runs there by a bare Python, without this package."""

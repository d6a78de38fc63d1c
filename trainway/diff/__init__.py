"""What a deploy would do to a deployed platform, said in words and refused where data or nodes would be lost."""

"""What a lab is made of: each part is one or more steps."""

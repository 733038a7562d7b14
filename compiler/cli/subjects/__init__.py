"""What commands are about: a GPT-2, a function in a file of the user's, a file of IR."""

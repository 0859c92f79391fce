"""Scripts that build, check and set up the project; a package only so that tests can import them."""

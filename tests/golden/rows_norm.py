import cases

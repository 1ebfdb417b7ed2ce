"""The instruments, a module each; every module has its INSTRUMENT."""

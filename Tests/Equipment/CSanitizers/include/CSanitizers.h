// This target has no interface: the sanitizers' runtimes find its functions by their names.

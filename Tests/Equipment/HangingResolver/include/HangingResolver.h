/* No declarations: the library is preloaded. */

/* Nothing calls it by name: it is preloaded. */

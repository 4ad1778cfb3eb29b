/* libFuzzer as a library (LLVM's compiler-rt, FuzzerInterface.h), which the toolchain has without a header. */
#ifndef CLIBFUZZER_H
#define CLIBFUZZER_H

#include <stddef.h>
#include <stdint.h>

/* Runs the fuzzer with the program's arguments, and calls run for each input until it ends the process. */
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*run)(const uint8_t *data, size_t size));

#endif

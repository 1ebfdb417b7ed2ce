/* Runs a fuzz target on the files given, without a fuzzer: for a compiler that brings none. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) {
            perror(argv[i]);
            return 1;
        }
        /* Exactly as large as the input, so that reading behind its end is noticed. */
        fseek(file, 0, SEEK_END);
        size_t size = (size_t)ftell(file);
        rewind(file);
        uint8_t *data = malloc(size ? size : 1);
        if (!data || fread(data, 1, size, file) != size) {
            perror(argv[i]);
            return 1;
        }
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    return 0;
}

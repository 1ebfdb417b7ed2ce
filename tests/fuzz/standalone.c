/* Runs a fuzz target on the given files, for compilers without a fuzzer. */
#include <stdbool.h>
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
        long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
        /* Allocate exactly the input's size, so that the sanitizer detects reads beyond its end. */
        uint8_t *data = size < 0 ? NULL : malloc(size ? (size_t)size : 1);
        bool read = data && fseek(file, 0, SEEK_SET) == 0 &&
                    fread(data, 1, (size_t)size, file) == (size_t)size;
        if (read)
            LLVMFuzzerTestOneInput(data, (size_t)size);
        else
            perror(argv[i]);
        free(data);
        fclose(file);
        if (!read)
            return 1;
    }
    return 0;
}

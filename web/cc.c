/*
 * cc - compile one C file, with libtcc and musl.
 *
 *     cc FILE PROGRAM
 */
#include <libtcc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void complain(void *unused, const char *message) {
    (void)unused;
    /* Headers of musl and of Linux define some names twice. */
    if (!strstr(message, "warning: ") || !strstr(message, "\n/usr/include/"))
        fprintf(stderr, "%s\n", message);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: cc FILE PROGRAM\n");
        return 2;
    }
    const char *parts[] = {"/usr/lib/crt1.o", "/usr/lib/crti.o", argv[1], "/lib/ld-musl-i386.so.1",
                           "/usr/lib/tcc/libtcc1.a", "/usr/lib/crtn.o"};
    setenv("LD_SO", "/lib/ld-musl-i386.so.1", 1); /* the program's dynamic linker */
    TCCState *compiler = tcc_new();
    tcc_set_error_func(compiler, NULL, complain);
    tcc_set_lib_path(compiler, "/usr/lib/tcc");
    tcc_set_options(compiler, "-nostdinc -nostdlib -Wall");
    tcc_define_symbol(compiler, "_GNU_SOURCE", "");
    tcc_add_sysinclude_path(compiler, "/usr/lib/tcc/include");
    tcc_add_sysinclude_path(compiler, "/usr/include/i386-linux-musl");
    tcc_add_sysinclude_path(compiler, "/usr/include/i386-linux-gnu");
    tcc_add_sysinclude_path(compiler, "/usr/include");
    tcc_set_output_type(compiler, TCC_OUTPUT_EXE);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (tcc_add_file(compiler, parts[i]) < 0)
            return 1;
    return tcc_output_file(compiler, argv[2]) < 0;
}

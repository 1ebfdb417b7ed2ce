/*
 * pagecache - how much of a file is in memory; put it there, or out of there.
 *
 *     pagecache [--state cold|warm|asis] FILE
 *
 * Chen Shuo's `nc < file` gave 116 MB/s the first time and 1075 MB/s the second: the first read the
 * disk, the second the page cache. Which of the two a measurement is should not be left to chance.
 * cold drops the file (POSIX_FADV_DONTNEED in posix_fadvise(2)), warm reads it, asis does neither;
 * mincore(2) says what came of it, and if that is not what was asked for, the program fails.
 *
 * Dropping works for files on disks only: those of a tmpfs live nowhere else.
 */
#include "net.h"

static int state = CACHE_ASIS;

static const struct program_option options[MAX_OPTIONS] = {
    {"state", 0, "STATE", "what to do first", .choice = &state, .names = cache_names},
};

static const struct command command = {
    .usage = "pagecache [OPTION]... FILE",
    .summary = "Says how much of FILE is in the page cache; puts it there, or out of there.",
    .options = options,
    .arguments = {1, 1},
};

int main(int argc, char **argv) {
    const char *path = start_program(argc, argv, &command)[0];
    int64_t size;
    int file = open_regular_file(path, &size);
    double share = prepare_cache(file, path, state);

    struct json j = start_result(stdout);
    json_int(&j, "bytes", size);
    json_double(&j, "cached_share", share);
    json_finish(&j);
}

/* For any command line, the parsed values are in range, or it is rejected. */
#include "fuzz.h"

enum { MAX_WORDS = 30 };

static bool flag;
static int64_t number, buffer_bytes;
static double decimal;
static const char *text;
static int choice;
static const char *const choices[] = {"one", "two", "three", NULL};

static const struct program_option options[MAX_OPTIONS] = {
    {"flag", 'f', NULL, "a flag", .flag = &flag},
    {"number", 'n', "N", "a number", .number = &number, .min = 1, .max = 1e9},
    {"buffer", 'b', "BYTES", "a buffer", BUFFER_SIZE(buffer_bytes)},
    {NULL, 'd', "SECONDS", "a decimal number", .decimal = &decimal, .min = 0.5, .max = 86400},
    {"text", 0, "TEXT", "a text", .text = &text},
    {"choice", 'c', "WHICH", "a choice", .choice = &choice, .names = choices},
};

static const struct command command = {
    .usage = "command_line [OPTION]... WORD [WORD]",
    .summary = "For the fuzzer.",
    .options = options,
    .arguments = {1, 2},
    .tcp = true,
    .listens = true,
};

static void check_values(char **arguments) {
    CHECK(arguments[0] && (!arguments[1] || !arguments[2]));
    CHECK(number == 7 || (number >= 1 && number <= 1000000000));
    CHECK(buffer_bytes >= 0 && buffer_bytes <= 1 << 30);
    CHECK(decimal == 0 || (decimal >= 0.5 && decimal <= 86400));
    CHECK(choice >= 0 && choice <= 2);
    CHECK(common.cpu >= -1 && common.cpu < CPU_SETSIZE);
    CHECK(common.deadline_s >= 0 && common.deadline_s <= 1e6);
    CHECK(deadline_ms() == -1 ? common.deadline_s == 0 : deadline_ms() > 0);
}

/* Line feeds separate the words of the command line. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char name[] = "command_line";
    char *words = malloc(size + 1), *argv[MAX_WORDS + 2] = {name};
    int argc = 1;
    CHECK(words);
    memcpy(words, data, size);
    words[size] = '\0';
    for (char *word = strtok(words, "\n"); word && argc <= MAX_WORDS; word = strtok(NULL, "\n"))
        argv[argc++] = word;

    flag = false, number = 7, buffer_bytes = 0, decimal = 0, text = NULL, choice = 0;
    common = (struct common){.cpu = -1, .deadline_s = 60};
    optind = 0; /* getopt_long(3) starts over */
    if (RUN_ENDS() == 0)
        check_values(parse_command_line(argc, argv, &command));
    free(words);
    return 0;
}

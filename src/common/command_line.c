/* command_line.c - see command_line.h. */
#include "command_line.h"

#include "event_log.h"
#include "process.h"

#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- numbers ---- */

int64_t whole_number(const char *name, const char *text, int64_t min, int64_t max) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        usage_error("%s: '%s' is not a whole number", name, text);
    if (errno == ERANGE || value < min || value > max)
        usage_error("%s: %s is outside %lld to %lld", name, text, (long long)min, (long long)max);
    return value;
}

static double decimal_number(const char *name, const char *text, double min, double max) {
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value))
        usage_error("%s: '%s' is not a number", name, text);
    if (errno == ERANGE || value < min || value > max)
        usage_error("%s: %s is outside %g to %g", name, text, min, max);
    return value;
}

/* ---- the command line ---- */

struct common common = {.cpu = -1, .deadline_s = 60, .port = "9000"};

enum { ALL_OPTIONS = MAX_OPTIONS + 10, LONG_ONLY = 256 };

/* The program's options and the common ones, in the form of getopt_long(). */
struct option_table {
    const struct command *command;
    struct program_option options[ALL_OPTIONS];
    struct option long_options[ALL_OPTIONS];
    char letters[2 * ALL_OPTIONS + 2];
    int count;
};

static void add_option(struct option_table *table, const struct program_option *option) {
    int i = table->count++;
    int kind = option->value ? required_argument : no_argument;
    table->options[i] = *option;
    table->long_options[i] =
        (struct option){option->name ? option->name : "", kind, NULL, LONG_ONLY + i};
    if (option->letter) {
        size_t used = strlen(table->letters);
        snprintf(table->letters + used, sizeof table->letters - used, "%c%s", option->letter,
                 option->value ? ":" : "");
    }
}

static void fill_option_table(struct option_table *table) {
    const struct command *command = table->command;
    const bool usual = !command->bare;
    const struct {
        bool taken;
        struct program_option option;
    } common_options[] = {
        {command->port, {"port", 'p', "PORT", command->port, .text = &common.port}},
        {command->nodelay,
         {"nodelay", 0, NULL, "switch Nagle's algorithm off (TCP_NODELAY)",
          .flag = &common.nodelay}},
        {command->logs, {"log", 0, "FILE", command->logs, .text = &common.log}},
        {command->listens,
         {"bind", 0, "ADDRESS", "listen on this address only", .text = &common.bind}},
        {command->tcp,
         {"congestion", 0, "NAME", "congestion control, e.g. cubic", .text = &common.congestion}},
        {usual,
         {"cpu", 0, "N", "run on this CPU only", .number = &common.cpu, .max = CPU_SETSIZE - 1}},
        {usual,
         {"deadline", 0, "S", "give up after this long without progress; 0 means never",
          .decimal = &common.deadline_s, .max = 1e6}},
        {usual, {"json", 0, NULL, "print the result as one JSON object", .flag = &common.json}},
        {true, {"help", 0, NULL, "show this help", .flag = NULL}},
    };
    strcpy(table->letters, ":"); /* makes getopt silent, and distinguishes a missing value */
    for (int i = 0; command->options && i < MAX_OPTIONS && command->options[i].help; i++)
        add_option(table, &command->options[i]);
    for (size_t i = 0; i < COUNT(common_options); i++)
        if (common_options[i].taken)
            add_option(table, &common_options[i].option);
}

static void list_names(const char *const *names, char *text, size_t size) {
    *text = '\0';
    for (int i = 0; names[i]; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
    }
}

/* Prints the range and the default if there are any, such as " (1 to 1024; 15)". */
static void print_range(const struct program_option *option) {
    char range[128] = "", value[64] = "";
    if (option->number) {
        snprintf(range, sizeof range, "%.0f to %.0f%s%s", option->min, option->max,
                 option->zero ? ", " : "", option->zero ? option->zero : "");
        if (*option->number == 0 && option->zero)
            snprintf(value, sizeof value, "; %s", option->zero);
        else if (*option->number > 0)
            snprintf(value, sizeof value, "; %lld", (long long)*option->number);
    } else if (option->decimal && *option->decimal > 0) {
        snprintf(value, sizeof value, "%g", *option->decimal);
    } else if (option->text && *option->text) {
        snprintf(value, sizeof value, "%s", *option->text);
    } else if (option->choice) {
        list_names(option->names, range, sizeof range);
        snprintf(value, sizeof value, "; %s", option->names[*option->choice]);
    }
    if (*range || *value)
        printf(" (%s%s)", range, value);
}

static void print_option(const struct program_option *option) {
    char letter[8] = "", name[64] = "", left[96];
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c%s", option->letter, option->name ? ", " : "");
    if (option->name)
        snprintf(name, sizeof name, "--%s", option->name);
    snprintf(left, sizeof left, "%s%s%s%s%s", *letter ? "" : "    ", letter, name,
             option->value ? " " : "", option->value ? option->value : "");
    printf("  %-22s %s", left, option->help);
    print_range(option);
    putchar('\n');
}

static _Noreturn void print_help(const struct option_table *table) {
    printf("usage: %s\n%s\n\n", table->command->usage, table->command->summary);
    for (int i = 0; i < table->count; i++)
        print_option(&table->options[i]);
    if (table->command->more_help)
        table->command->more_help();
    finish_output(stdout);
    exit(0);
}

int one_of(const char *name, const char *text, const char *const *names) {
    char choices[256];
    for (int i = 0; names[i]; i++) {
        if (strcmp(text, names[i]) == 0)
            return i;
    }
    list_names(names, choices, sizeof choices);
    usage_error("%s: '%s' is not one of %s", name, text, choices);
}

static void set_variable(const struct program_option *option, const char *text) {
    char name[64];
    if (option->name)
        snprintf(name, sizeof name, "--%s", option->name);
    else
        snprintf(name, sizeof name, "-%c", option->letter);
    if (option->flag)
        *option->flag = true;
    else if (option->number && option->zero && strcmp(text, option->zero) == 0)
        *option->number = 0;
    else if (option->number)
        *option->number = whole_number(name, text, (int64_t)option->min, (int64_t)option->max);
    else if (option->decimal)
        *option->decimal = decimal_number(name, text, option->min, option->max);
    else if (option->text)
        *option->text = text;
    else if (option->each)
        option->each(text);
    else
        *option->choice = one_of(name, text, option->names);
}

/* Reports a wrong option, since getopt_long's messages name argv[0] and do not mention --help. */
static _Noreturn void reject_option(int result, char **argv) {
    char letter[] = {'-', (char)optopt, '\0'};
    bool is_letter = optopt > 0 && optopt < LONG_ONLY;
    const char *option = is_letter ? letter : argv[optind - 1];
    if (result == ':')
        usage_error("%s needs a value", option);
    usage_error("%s is not an option of this program", option);
}

static const struct program_option *find_option(const struct option_table *table, int result) {
    if (result >= LONG_ONLY)
        return &table->options[result - LONG_ONLY];
    for (int i = 0; i < table->count; i++) {
        if (table->options[i].letter == result)
            return &table->options[i];
    }
    abort(); /* getopt returns only known letters */
}

char **parse_command_line(int argc, char **argv, const struct command *command) {
    struct option_table table = {.command = command};
    fill_option_table(&table);
    opterr = 0;
    for (int o; (o = getopt_long(argc, argv, table.letters, table.long_options, NULL)) != -1;) {
        if (o == '?' || o == ':')
            reject_option(o, argv);
        const struct program_option *option = find_option(&table, o);
        if (option->name && strcmp(option->name, "help") == 0)
            print_help(&table);
        set_variable(option, optarg);
    }
    char **arguments = argv + optind;
    if (argc - optind < command->arguments[0])
        usage_error("an argument is missing; usage: %s", command->usage);
    if (argc - optind > command->arguments[1])
        usage_error("'%s' is one argument too many; usage: %s", arguments[command->arguments[1]],
                    command->usage);
    return arguments;
}

static void pin_to_cpu(void) {
    if (common.cpu < 0)
        return;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET((size_t)common.cpu, &only);
    if (sched_setaffinity(0, sizeof only, &only) < 0)
        fail("--cpu %lld (this machine has CPUs 0 to %ld)", (long long)common.cpu,
             sysconf(_SC_NPROCESSORS_CONF) - 1);
}

char **start_program(int argc, char **argv, const struct command *command) {
    prepare_process();
    char **arguments = parse_command_line(argc, argv, command);
    open_log(common.log);
    pin_to_cpu();
    return arguments;
}

/* answer.c - see answer.h. */
#define _GNU_SOURCE
#include "answer.h"

#include <stdarg.h>

struct json answer_begin(void) {
    struct json j = json_start(stdout);
    json_object(&j, NULL);
    json_bool(&j, "ok", true);
    return j;
}

void answer_end(struct json *j) {
    json_end_object(j);
    json_finish(j);
}

void answer_ok(void) {
    struct json j = answer_begin();
    answer_end(&j);
}

bool answer_error(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct json j = json_start(stdout);
    json_object(&j, NULL);
    json_string(&j, "error", text);
    answer_end(&j);
    return false;
}

/* json.c - see json.h. */
#include "json.h"

#include "process.h"

#include <math.h>

static void write_quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

/* Writes the comma or the line end before a member, and its key. */
static void begin_member(struct json *j, const char *key) {
    if (j->needs_comma)
        fputs(j->plain ? "\n" : ", ", j->out);
    if (j->plain) {
        char name[64];
        snprintf(name, sizeof name, "%s%s%s", j->object ? j->object : "", j->object ? "." : "",
                 key);
        fprintf(j->out, "%-27s ", name);
    } else if (key) {
        write_quoted(j->out, key);
        fputs(": ", j->out);
    }
    j->needs_comma = true;
}

static void open_bracket(struct json *j, const char *key, char bracket) {
    begin_member(j, key);
    fputc(bracket, j->out);
    j->needs_comma = false;
}

static void close_bracket(struct json *j, char bracket) {
    fputc(bracket, j->out);
    j->needs_comma = true;
}

struct json json_start(FILE *out, bool plain) {
    struct json j = {.out = out, .plain = plain};
    json_object(&j, NULL);
    return j;
}

void json_object(struct json *j, const char *key) {
    j->object = key;
    if (!j->plain)
        open_bracket(j, key, '{');
}

void json_end_object(struct json *j) {
    j->object = NULL;
    if (!j->plain)
        close_bracket(j, '}');
}

void json_array(struct json *j, const char *key) {
    open_bracket(j, key, '[');
}

void json_end_array(struct json *j) {
    close_bracket(j, ']');
}

void json_string(struct json *j, const char *key, const char *value) {
    begin_member(j, key);
    if (j->plain)
        fputs(value, j->out);
    else
        write_quoted(j->out, value);
}

void json_int(struct json *j, const char *key, int64_t value) {
    begin_member(j, key);
    fprintf(j->out, "%lld", (long long)value);
}

void json_double(struct json *j, const char *key, double value) {
    begin_member(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.*g", j->plain ? 6 : 9, value);
    else
        fputs("null", j->out);
}

void json_bool(struct json *j, const char *key, bool value) {
    begin_member(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_finish(struct json *j) {
    json_end_object(j);
    fputc('\n', j->out);
    finish_output(j->out);
}

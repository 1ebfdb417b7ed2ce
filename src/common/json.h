/*
 * json.h - writes one JSON object to a stream, member by member, with commas added automatically.
 * The plain form for people has a line "NAME VALUE" for each member, and "OBJECT.NAME VALUE" for a
 * member of an inner object.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool needs_comma;
    bool plain;         /* plain form, for an object of values or objects of values */
    const char *object; /* in plain form, name of the current inner object */
};

/* Begins the outermost object. */
struct json json_start(FILE *out, bool plain);
/* key is NULL for an element of an array. */
void json_object(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_array(struct json *j, const char *key);
void json_end_array(struct json *j);
void json_string(struct json *j, const char *key, const char *value);
void json_int(struct json *j, const char *key, int64_t value);
/* Writes a value; one that is not finite becomes null, since JSON cannot represent it. */
void json_double(struct json *j, const char *key, double value);
void json_bool(struct json *j, const char *key, bool value);
/* Ends the object and the line, and flushes; fails if the output is closed or full. */
void json_finish(struct json *j);

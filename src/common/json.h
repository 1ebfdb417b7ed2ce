/*
 * json.h - writes one JSON object to a stream, member by member; the commas look after themselves.
 * The plain form is for a human: a line "NAME VALUE" for each member, "OBJECT.NAME VALUE" for one
 * of an inner object.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool needs_comma;
    bool plain;         /* of one object, whose members are values or objects of values */
    const char *object; /* plain: the inner object that is written */
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
/* A value that is not finite is written as null: JSON has no word for it. */
void json_double(struct json *j, const char *key, double value);
void json_bool(struct json *j, const char *key, bool value);
/* Ends the object and the line, and flushes; a closed or full output is a failure, not a silence.
 */
void json_finish(struct json *j);

/* JSON, read in place: the text is checked once as a whole, then walked; nothing is allocated.
 *
 * A value is a piece of the checked text, so looking something up cannot fail in any other way than by not finding it.
 */
#ifndef JSON_H
#define JSON_H

#include <stddef.h>

struct json {
    const char *text; /* NULL: no such value */
    size_t length;
};

/* Checks that the text is one JSON value. Returns 1, or 0 with the place and the reason of the first fault. */
int json_parse(const char *text, size_t length, struct json *value, size_t *bad_at, const char **why);

/* The member of an object, the last of that name as most readers take it; no value where there is none or it is null. */
struct json json_get(struct json object, const char *name);

/* Walks an array's items, or an object's members, in order; start with an `at` of 0. Returns 0 at the end. */
int json_next_item(struct json array, size_t *at, struct json *item);
int json_next_member(struct json object, size_t *at, struct json *name, struct json *value);

int json_is(struct json value, char kind); /* kind: '{' '[' '"' 't' (true) 'f' (false) 'n' (null) '0' (a number) */
int json_equals(struct json string, const char *text);
int json_string(struct json string, char *out, size_t size);       /* 0 where it is no string or does not fit */
int json_whole(struct json number, long long *out);                /* 0 where it is not a whole number in range */
int json_number(struct json number, double *out);                  /* 0 where it is not a number */

#endif

#include "json.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_NUMBER = 64 };

/* -- checking ------------------------------------------------------------------------------------------------------ */

struct checker {
    const char *at, *end;
    const char *why; /* the first fault, at `at` */
};

static int fault(struct checker *c, const char *why)
{
    if (!c->why)
        c->why = why;
    return 0;
}

static void skip_space(struct checker *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
        c->at++;
}

static int take(struct checker *c, char expected)
{
    if (c->at == c->end || *c->at != expected)
        return 0;
    c->at++;
    return 1;
}

static int check_word(struct checker *c, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return fault(c, "not a JSON value");
    c->at += n;
    return 1;
}

static int check_escape(struct checker *c)
{
    if (c->at == c->end)
        return fault(c, "a string without an end");
    if (*c->at++ != 'u')
        return strchr("\"\\/bfnrt", c->at[-1]) && c->at[-1] ? 1 : fault(c, "an unknown escape in a string");
    for (int i = 0; i < 4; i++, c->at++)
        if (c->at == c->end || !isxdigit((unsigned char)*c->at))
            return fault(c, "\\u without four hexadecimal digits");
    return 1;
}

static int check_string(struct checker *c)
{
    if (!take(c, '"'))
        return fault(c, "a string is expected");
    while (c->at < c->end) {
        unsigned char byte = (unsigned char)*c->at++;
        if (byte == '"')
            return 1;
        if (byte < 0x20)
            return fault(c, "a control character in a string");
        if (byte == '\\' && !check_escape(c))
            return 0;
    }
    return fault(c, "a string without an end");
}

static int check_digits(struct checker *c)
{
    if (c->at == c->end || !isdigit((unsigned char)*c->at))
        return fault(c, "a number without digits");
    while (c->at < c->end && isdigit((unsigned char)*c->at))
        c->at++;
    return 1;
}

static int check_number(struct checker *c)
{
    take(c, '-');
    if (c->at < c->end && *c->at == '0')
        c->at++;
    else if (!check_digits(c))
        return 0;
    if (take(c, '.') && !check_digits(c))
        return 0;
    if (take(c, 'e') || take(c, 'E')) {
        if (!take(c, '-'))
            take(c, '+');
        return check_digits(c);
    }
    return 1;
}

static int check_value(struct checker *c, int depth);

static int check_member(struct checker *c, int depth)
{
    skip_space(c);
    if (!check_string(c))
        return 0;
    skip_space(c);
    if (!take(c, ':'))
        return fault(c, "':' is expected after a name");
    return check_value(c, depth);
}

/* Members or items, with their closing bracket. */
static int check_list(struct checker *c, char closing, int depth)
{
    if (depth == MAX_DEPTH)
        return fault(c, "nested too deeply");
    skip_space(c);
    if (take(c, closing))
        return 1;
    do {
        if (!(closing == '}' ? check_member(c, depth + 1) : check_value(c, depth + 1)))
            return 0;
        skip_space(c);
    } while (take(c, ','));
    return take(c, closing) ? 1 : fault(c, closing == '}' ? "',' or '}' is expected" : "',' or ']' is expected");
}

static int check_value(struct checker *c, int depth)
{
    skip_space(c);
    if (c->at == c->end)
        return fault(c, "the text ends too early");
    switch (*c->at) {
    case '{':
    case '[':
        return check_list(c, *c->at++ == '{' ? '}' : ']', depth);
    case '"':
        return check_string(c);
    case 't':
        return check_word(c, "true");
    case 'f':
        return check_word(c, "false");
    case 'n':
        return check_word(c, "null");
    default:
        return *c->at == '-' || isdigit((unsigned char)*c->at) ? check_number(c) : fault(c, "not a JSON value");
    }
}

int json_parse(const char *text, size_t length, struct json *value, size_t *bad_at, const char **why)
{
    struct checker c = {text, text + length, NULL};
    skip_space(&c);
    value->text = c.at;
    if (check_value(&c, 0)) {
        value->length = (size_t)(c.at - value->text);
        skip_space(&c);
        if (c.at == c.end)
            return 1;
        fault(&c, "something follows the end");
    }
    *bad_at = (size_t)(c.at - text);
    *why = c.why;
    value->text = NULL;
    return 0;
}

/* -- walking: the text is known to be sound ------------------------------------------------------------------------ */

static const char *after_string(const char *at)
{
    for (at++; *at != '"'; at++)
        if (*at == '\\')
            at++;
    return at + 1;
}

/* The first byte behind the value that begins at `at`. */
static const char *after_value(const char *at, const char *end)
{
    int depth = 0;
    do {
        if (*at == '"') {
            at = after_string(at);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        if (*at == '}' || *at == ']')
            depth--;
        at++;
    } while (at < end && (depth > 0 || !strchr(",]} \t\r\n:", *at)));
    return at;
}

static const char *next_token(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r\n,:", *at))
        at++;
    return at;
}

static struct json value_at(const char *at, const char *end)
{
    struct json value = {at, (size_t)(after_value(at, end) - at)};
    return value;
}

static int next_in(struct json list, char opening, size_t *at, struct json *value)
{
    if (!json_is(list, opening))
        return 0;
    const char *end = list.text + list.length;
    const char *token = next_token(list.text + (*at ? *at : 1), end);
    if (token + 1 >= end)
        return 0;
    *value = value_at(token, end);
    *at = (size_t)(value->text + value->length - list.text);
    return 1;
}

int json_next_item(struct json array, size_t *at, struct json *item)
{
    return next_in(array, '[', at, item);
}

int json_next_member(struct json object, size_t *at, struct json *name, struct json *value)
{
    return next_in(object, '{', at, name) && next_in(object, '{', at, value);
}

struct json json_get(struct json object, const char *name)
{
    struct json key, value, found = {NULL, 0};
    for (size_t at = 0; json_next_member(object, &at, &key, &value);)
        if (json_equals(key, name))
            found = value;
    if (json_is(found, 'n'))
        found.text = NULL;
    return found;
}

int json_is(struct json value, char kind)
{
    if (!value.text)
        return 0;
    if (kind == '0')
        return *value.text == '-' || isdigit((unsigned char)*value.text);
    return *value.text == kind;
}

/* -- strings and numbers ------------------------------------------------------------------------------------------- */

static unsigned hex4(const char *at)
{
    char digits[5] = {at[0], at[1], at[2], at[3], 0};
    return (unsigned)strtoul(digits, NULL, 16);
}

static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80)
        return out[0] = (char)c, 1;
    if (c < 0x800)
        return out[0] = (char)(0xC0 | c >> 6), out[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12), out[1] = (char)(0x80 | (c >> 6 & 63)), out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18), out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63)), out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* One character of a string, escapes undone: its bytes go to `out` (room for 4), their number is returned. */
static size_t next_character(const char **at, const char *end, char *out)
{
    static const char escapes[] = "b\bf\fn\nr\rt\t";
    const char *c = *at;
    if (*c != '\\')
        return *at = c + 1, out[0] = *c, 1;
    *at = c + 2;
    if (c[1] != 'u') {
        const char *known = strchr(escapes, c[1]);
        return out[0] = known ? known[1] : c[1], 1;
    }
    uint32_t code = hex4(c + 2);
    *at = c + 6;
    if (code >= 0xD800 && code < 0xDC00 && end - *at > 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        uint32_t low = hex4(*at + 2);
        if (low >= 0xDC00 && low < 0xE000)
            return *at += 6, put_utf8(out, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
    }
    return put_utf8(out, code);
}

int json_equals(struct json string, const char *text)
{
    if (!json_is(string, '"'))
        return 0;
    const char *at = string.text + 1, *end = string.text + string.length - 1;
    size_t left = strlen(text);
    while (at < end) {
        char bytes[4];
        size_t n = next_character(&at, end, bytes);
        if (n > left || memcmp(bytes, text, n) != 0)
            return 0;
        text += n;
        left -= n;
    }
    return left == 0;
}

int json_string(struct json string, char *out, size_t size)
{
    if (!json_is(string, '"'))
        return 0;
    const char *at = string.text + 1, *end = string.text + string.length - 1;
    while (at < end) {
        char bytes[4];
        size_t n = next_character(&at, end, bytes);
        if (n >= size)
            return 0;
        memcpy(out, bytes, n);
        out += n;
        size -= n;
    }
    *out = '\0';
    return 1;
}

/* strtod and strtoll want a text that ends in a zero byte. */
static int copy_number(struct json number, char *out)
{
    if (!json_is(number, '0') || number.length >= MAX_NUMBER)
        return 0;
    memcpy(out, number.text, number.length);
    out[number.length] = '\0';
    return 1;
}

int json_whole(struct json number, long long *out)
{
    char text[MAX_NUMBER];
    char *end;
    if (!copy_number(number, text))
        return 0;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *end == '\0' && errno == 0;
}

int json_number(struct json number, double *out)
{
    char text[MAX_NUMBER];
    if (!copy_number(number, text))
        return 0;
    *out = strtod(text, NULL);
    return 1;
}

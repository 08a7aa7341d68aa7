/*
 * validate_json.c - text that the server's json type takes.
 *
 * The rules are those of the server's own lexer when it only checks: RFC 8259, escapes looked at
 * but not decoded, so surrogates need not pair. No recursion: a bit per level says whether it is
 * an object; a body is too short for more levels than there are bits.
 */
#include "validate.h"

#include <string.h>

/* Every level costs a byte at least, and bodies are shorter than a page of 32 kB. */
#define LEVELS_MAX 32768

/* The server recurses, and gives up at a depth that its stack sets; this is well below. */
#define DEPTH_MAX 6400

static const char *const BAD = "not valid JSON";

static inline bool
is_digit(uint8_t byte)
{
	return byte >= '0' && byte <= '9';
}

static inline bool
is_hex(uint8_t byte)
{
	return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

static const uint8_t *
skip_space(const uint8_t *at, const uint8_t *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
		at++;
	return at;
}

/* Behind the closing quote, or NULL. */
static const uint8_t *
skip_string(const uint8_t *at, const uint8_t *end)
{
	if (at >= end || *at != '"')
		return NULL;
	for (at++; at < end; at++)
	{
		if (*at == '"')
			return at + 1;
		if (*at < 0x20)
			return NULL;
		if (*at != '\\')
			continue;
		if (++at >= end)
			return NULL;
		if (*at == 'u')
		{
			if (end - at < 5 || !is_hex(at[1]) || !is_hex(at[2]) || !is_hex(at[3])
				|| !is_hex(at[4]))
				return NULL;
			at += 4;
		}
		else if (*at == 0 || strchr("\"\\/bfnrt", *at) == NULL)
			return NULL;
	}
	return NULL;
}

static const uint8_t *
skip_digits(const uint8_t *at, const uint8_t *end)
{
	if (at >= end || !is_digit(*at))
		return NULL;
	while (at < end && is_digit(*at))
		at++;
	return at;
}

static const uint8_t *
skip_number(const uint8_t *at, const uint8_t *end)
{
	if (*at == '-')
		at++;
	if (at < end && *at == '0')
		at++;
	else if ((at = skip_digits(at, end)) == NULL)
		return NULL;
	if (at < end && *at == '.')
		if ((at = skip_digits(at + 1, end)) == NULL)
			return NULL;
	if (at < end && (*at == 'e' || *at == 'E'))
	{
		at++;
		if (at < end && (*at == '+' || *at == '-'))
			at++;
		at = skip_digits(at, end);
	}
	return at;
}

static const uint8_t *
skip_word(const uint8_t *at, const uint8_t *end, const char *word)
{
	size_t		length = strlen(word);

	if ((size_t) (end - at) < length || memcmp(at, word, length) != 0)
		return NULL;
	return at + length;
}

/* A letter, digit, underscore or byte above 127 right behind a word or number is part of it. */
static bool
goes_on(const uint8_t *at, const uint8_t *end)
{
	return at < end && (is_digit(*at) || *at == '_' || *at >= 0x80
						|| (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z'));
}

static const uint8_t *
skip_scalar(const uint8_t *at, const uint8_t *end)
{
	if (*at == '"')
		return skip_string(at, end);
	if (*at == '-' || is_digit(*at))
		at = skip_number(at, end);
	else if (*at == 't')
		at = skip_word(at, end, "true");
	else if (*at == 'f')
		at = skip_word(at, end, "false");
	else
		at = skip_word(at, end, "null");
	return at == NULL || goes_on(at, end) ? NULL : at;
}

/* A key and its colon; stands before the value then. */
static const uint8_t *
skip_key(const uint8_t *at, const uint8_t *end)
{
	at = skip_string(at, end);
	if (at == NULL)
		return NULL;
	at = skip_space(at, end);
	if (at >= end || *at != ':')
		return NULL;
	return skip_space(at + 1, end);
}

const char *
fb_validate_json(const uint8_t *value, uint32_t length)
{
	uint8_t		is_object[LEVELS_MAX / 8];
	uint32_t	depth = 0;
	const uint8_t *at = value;
	const uint8_t *end = value + length;

	if (length > LEVELS_MAX)
		return "a json value too long for a body";
	at = skip_space(at, end);
	for (;;)
	{
		/* Here a value begins. */
		if (at >= end)
			return BAD;
		if (*at == '{' || *at == '[')
		{
			bool		object = *at == '{';

			if (depth == DEPTH_MAX)
				return "JSON nested too deeply";
			is_object[depth / 8] = (uint8_t) ((is_object[depth / 8] & ~(1 << (depth % 8)))
											  | (object << (depth % 8)));
			depth++;
			at = skip_space(at + 1, end);
			if (at < end && *at == (object ? '}' : ']'))
			{
				at++;
				depth--;
			}
			else
			{
				if (object && (at = skip_key(at, end)) == NULL)
					return BAD;
				continue;
			}
		}
		else if ((at = skip_scalar(at, end)) == NULL)
			return BAD;

		/* And here one has ended: close what closes, until another value must follow. */
		for (;;)
		{
			bool		object;

			at = skip_space(at, end);
			if (depth == 0)
				return at == end ? NULL : BAD;
			if (at >= end)
				return BAD;
			object = is_object[(depth - 1) / 8] >> ((depth - 1) % 8) & 1;
			if (*at == ',')
			{
				at = skip_space(at + 1, end);
				if (object && (at = skip_key(at, end)) == NULL)
					return BAD;
				break;
			}
			if (*at != (object ? '}' : ']'))
				return BAD;
			at++;
			depth--;
		}
	}
}

/*
 * once.c - runs the fuzz target on files, once each; for valgrind.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
main(int count, char **names)
{
	for (int at = 1; at < count; at++)
	{
		static uint8_t memory[65536];
		FILE	   *file = fopen(names[at], "rb");
		uint8_t    *input;
		size_t		size;

		if (file == NULL)
		{
			perror(names[at]);
			return 1;
		}
		size = fread(memory, 1, sizeof memory, file);
		fclose(file);
		/* A block of its own: bytes behind it are nobody's. */
		input = malloc(size);
		for (size_t byte = 0; byte < size; byte++)
			input[byte] = memory[byte];
		LLVMFuzzerTestOneInput(input, size);
		free(input);
	}
	printf("%d inputs\n", count - 1);
	return 0;
}

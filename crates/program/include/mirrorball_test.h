/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tests of a policy, compiled and run on the machine of its developer. A test includes this file
 * and the policy, fills `mb_context`, which is what the policy is shown, and calls its operations:
 *
 *	#include "mirrorball_test.h"
 *	#include "policy.c"
 *
 *	int main(void)
 *	{
 *		mb_test_mirrors(2);
 *		mb_context.mirror[0].m.reads_in_flight = 3;
 *		MB_EXPECT(mb_op_choose(&mb_context) == 1);
 *		return mb_test_end();
 *	}
 *
 *	cc -g policy_test.c -o policy_test && ./policy_test
 */
#ifndef MIRRORBALL_TEST_H
#define MIRRORBALL_TEST_H

#include <stdio.h>
#include <stdlib.h>

#define MB_TEST
#include "mirrorball_policy.h"

/* What the helpers were called with. */
static struct {
	u32 hedge_backup;
	u64 hedge_after_ns;
	u32 split_mask;
	u32 read_all_mask;
	s64 counters[16];
	s64 scores[MB_MIRRORS_MAX];
} mb_test_calls;

static u64 mb_test_seed = 1;
static u32 mb_test_failures;

/* SplitMix64: equal seeds give equal numbers. */
u64 mb_random(void)
{
	u64 z = mb_test_seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* The members of the array are those that hold a mirror. */
s64 mb_member(u32 index, struct mb_member *out)
{
	for (u32 i = 0; i < mb_context.nr && i < MB_MIRRORS_MAX; i++)
		if (mb_context.mirror[i].m.index == index) {
			*out = mb_context.mirror[i].m;
			return 0;
		}
	return -1;
}

void mb_hedge(u32 backup, u64 after_ns)
{
	mb_test_calls.hedge_backup = backup;
	mb_test_calls.hedge_after_ns = after_ns;
}

void mb_split(u32 mask)
{
	mb_test_calls.split_mask = mask;
}

void mb_read_all(u32 mask)
{
	mb_test_calls.read_all_mask = mask;
}

void mb_count(u32 id, s64 n)
{
	mb_test_calls.counters[id & 15] += n;
}

/* mb_note() has an effect where mb_context.flags has MB_EXPLAINED. */
void mb_note_score(u32 index, s64 score)
{
	mb_test_calls.scores[index & (MB_MIRRORS_MAX - 1)] = score;
}

void mb_error(u32 code)
{
	fprintf(stderr, "the policy called mb_error(%u)\n", code);
	exit(1);
}

/* Shows the policy a read of 4 KiB with so many mirrors, on members that are idle and of which
 * nothing is known. */
static inline void mb_test_mirrors(u32 count)
{
	mb_context = (struct mb_choose){ .abi = MB_ABI, .nr = count, .now_ns = 1, .length = 4096,
					 .copies = count, .members = count };
	for (u32 i = 0; i < count && i < MB_MIRRORS_MAX; i++) {
		mb_context.mirror[i].copy = i;
		mb_context.mirror[i].m.index = i;
		mb_context.mirror[i].m.devid = i + 1;
		mb_context.mirror[i].m.size_bytes = 1ull << 40;
		mb_context.mirror[i].m.queue_depth = 32;
	}
}

static inline void mb_test_expect(int holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	mb_test_failures++;
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
}
#define MB_EXPECT(what) mb_test_expect(!!(what), #what, __FILE__, __LINE__)

/* The exit code of the test: 1 if something was not as expected. */
static inline int mb_test_end(void)
{
	if (mb_test_failures == 0)
		puts("all is as expected");
	return mb_test_failures != 0;
}

#endif /* MIRRORBALL_TEST_H */

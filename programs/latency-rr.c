/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * latency-rr: mirrors whose mean read wait is within 25 % of the lowest take turns.
 *
 * A member that was passed over for 10,000 decisions in a row gets a new baseline, and its mean is
 * unknown for the next 100 decisions. The same as the built-in `kakra/latency-rr`, decision by
 * decision.
 */
#include "mirrorball_policy.h"

#define BLOCK_BYTES 4096
#define MEMBERS_MAX 64
#define CHECKPOINT_AGE 10000
#define PROBE_DECISIONS 100

MB_PROGRAM("latency-rr", "1", "kakra/latency-rr",
	   "turns among the mirrors within 25 % of the lowest mean read wait");

MB_PARAM(blocks, 64, 1, 0xffffffff, "blocks of 4 KiB read from one mirror before the next");

struct mean {
	s64 age;
	u64 checkpoint_reads;
	u64 checkpoint_wait_ns;
	u64 mean_ns;		/* 0 while unknown */
};

static struct mean means[MEMBERS_MAX];
static u32 blocks_read;

static struct mean *mean_of(const struct mb_mirror *mirror)
{
	return &means[mirror->m.index & (MEMBERS_MAX - 1)];
}

/* Ages a candidate, and computes its mean since the last checkpoint. */
static void age(const struct mb_mirror *mirror)
{
	struct mean *mean = mean_of(mirror);
	u64 reads, wait_ns;

	mean->age++;
	if (mean->age > CHECKPOINT_AGE) {
		mean->checkpoint_reads = mirror->m.reads_completed;
		mean->checkpoint_wait_ns = mirror->m.read_wait_ns;
		mean->age = -PROBE_DECISIONS;
	}
	reads = mirror->m.reads_completed - mean->checkpoint_reads;
	wait_ns = mirror->m.read_wait_ns - mean->checkpoint_wait_ns;
	mean->mean_ns = mean->age < 0 ? 0 : mb_div(wait_ns, reads);
}

MB_CHOOSE(c)
{
	u64 lowest_ns = ~0ull, limit_ns;
	u32 candidates = 0, turn;

	MB_EACH_MIRROR(c, i) {
		age(&c->mirror[i]);
		if (mean_of(&c->mirror[i])->mean_ns < lowest_ns)
			lowest_ns = mean_of(&c->mirror[i])->mean_ns;
	}
	limit_ns = lowest_ns + lowest_ns / 4;
	MB_EACH_MIRROR(c, i)
		candidates += mean_of(&c->mirror[i])->mean_ns <= limit_ns;
	turn = mb_mod(blocks_read / (u32)MB_VALUE(blocks), candidates);

	MB_EACH_MIRROR(c, i) {
		struct mean *mean = mean_of(&c->mirror[i]);
		u32 before = 0;

		mb_note(i, mean->mean_ns);
		if (mean->mean_ns > limit_ns)
			continue;
		MB_EACH_MIRROR(c, j)
			before += c->mirror[j].m.devid < c->mirror[i].m.devid &&
				  mean_of(&c->mirror[j])->mean_ns <= limit_ns;
		if (before == turn) {
			if (mean->age >= 0)
				mean->age = 0;
			return i;
		}
	}
	mb_error(1);
}

MB_SUBMIT(e)
{
	if (e->op == MB_READ)
		blocks_read += e->length / BLOCK_BYTES;
}

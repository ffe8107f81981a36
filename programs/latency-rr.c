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
/* Of the present decision. */
static struct {
	u64 limit_ns;			/* mean of a candidate, at most */
	u32 before[MB_MIRRORS_MAX];	/* candidates with a lower devid, for each mirror */
} now;

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

static u32 is_candidate(const struct mb_choose *c, u32 place)
{
	return mean_of(&c->mirror[place & (MB_MIRRORS_MAX - 1)])->mean_ns <= now.limit_ns;
}

/* Ages the candidates; returns the lowest mean. */
MB_PART(u64, lowest_mean, c)
{
	u64 lowest_ns = ~0ull;

	MB_EACH_MIRROR(c, i) {
		age(&c->mirror[i]);
		mb_note(i, mean_of(&c->mirror[i])->mean_ns);
		if (mean_of(&c->mirror[i])->mean_ns < lowest_ns)
			lowest_ns = mean_of(&c->mirror[i])->mean_ns;
	}
	return lowest_ns;
}

/* Number of candidates. */
MB_PART(u32, count_candidates, c)
{
	u32 candidates = 0;

	MB_EACH_MIRROR(c, i) {
		candidates += is_candidate(c, i);
		now.before[i] = 0;
	}
	return candidates;
}

/* Compares each mirror with each other: in one loop, because a verifier does not follow two. */
MB_PART(u32, order_candidates, c)
{
	MB_EACH(pair, c->nr * c->nr, MB_MIRRORS_MAX * MB_MIRRORS_MAX) {
		u32 i = mb_div(pair, c->nr) & (MB_MIRRORS_MAX - 1);
		u32 j = mb_mod(pair, c->nr) & (MB_MIRRORS_MAX - 1);

		now.before[i] += is_candidate(c, j) &&
				 c->mirror[j].m.devid < c->mirror[i].m.devid;
	}
	return 0;
}

/* The mirror whose turn it is, or c->nr. */
MB_PART_OF(u32, mirror_of, c, turn)
{
	MB_EACH_MIRROR(c, i)
		if (is_candidate(c, i) && now.before[i] == turn)
			return i;
	return c->nr;
}

MB_CHOOSE(c)
{
	u64 lowest_ns = lowest_mean(c);
	u32 turn, place;
	struct mean *mean;

	now.limit_ns = lowest_ns + lowest_ns / 4;
	turn = mb_mod(blocks_read / (u32)MB_VALUE(blocks), count_candidates(c));
	order_candidates(c);
	place = mirror_of(c, turn);
	if (place >= c->nr || place >= MB_MIRRORS_MAX)
		mb_error(1);
	mean = mean_of(&c->mirror[place]);
	if (mean->age >= 0)
		mean->age = 0;
	return place;
}

MB_SUBMIT(e)
{
	if (e->op == MB_READ)
		blocks_read += e->length / BLOCK_BYTES;
}

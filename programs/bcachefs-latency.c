/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * bcachefs: draws a mirror at random, in favour of a low moving average of the read latency. The
 * first mirror is compared with the second, the winner with the third, and so on; the next one wins
 * with probability old^2 / (old^2 + next^2).
 *
 * The average is of whole numbers, so that the policy compiles for a kernel, too. The same as the
 * built-in `bcachefs/inverse-square-latency`, decision by decision.
 */
#include "mirrorball_policy.h"

#define MEMBERS_MAX 64
/* A sample weighs 1/32, and one in 32 of the samples near the average is used. */
#define WEIGHT 32
/* The sum of the squares of two such latencies fits 64 bits. */
#define LATENCY_MAX_NS 2000000000ull
/* Each draw is accepted with a probability above 1/2. */
#define DRAWS_MAX 32

MB_PROGRAM("bcachefs-latency", "1", "bcachefs/inverse-square-latency",
	   "drawn by the inverse square of an average latency");

/* By member; 0 before the first read. */
static u64 latency_ns[MEMBERS_MAX];

/* A uniform number below a bound of up to 63 bits, drawn as the built-in policies draw. */
static u64 draw_below(u64 bound)
{
	u64 high = 0;

	MB_EACH(draws, DRAWS_MAX, DRAWS_MAX) {
		u64 draw = mb_random();
		u64 low = draw * bound;
		/* The upper half of the product. */
		u64 crossed = (draw >> 32) * (bound & 0xffffffff);
		u64 middle = (draw & 0xffffffff) * (bound >> 32) + (crossed & 0xffffffff) +
			     (((draw & 0xffffffff) * (bound & 0xffffffff)) >> 32);

		high = (draw >> 32) * (bound >> 32) + (crossed >> 32) + (middle >> 32);
		if (low >= bound || low >= mb_mod(0 - bound, bound))
			break;
	}
	return high;
}

MB_CHOOSE(c)
{
	u64 best_squared = 0;
	u32 best = 0;

	MB_EACH_MIRROR(c, i) {
		u64 mean = latency_ns[c->mirror[i].m.index & (MEMBERS_MAX - 1)];
		u64 squared = mean * mean;
		u64 sum = squared + best_squared;

		mb_note(i, mean);
		/* With a sum of 0 any draw is allowed. */
		if (i == 0 || sum == 0 || draw_below(sum) > squared) {
			best = i;
			best_squared = squared;
		}
	}
	return best;
}

MB_COMPLETE(e)
{
	u64 *mean = &latency_ns[e->member & (MEMBERS_MAX - 1)];
	u64 sample = e->wait_ns < LATENCY_MAX_NS ? e->wait_ns : LATENCY_MAX_NS;
	u64 distance = sample > *mean ? sample - *mean : *mean - sample;

	if (e->op != MB_READ || e->result != MB_OK)
		return;
	/* Most samples near the average are left out: in a kernel, each is an atomic operation. */
	if (distance >= *mean / 2 || mb_random_below(WEIGHT) == 0)
		*mean = ((WEIGHT - 1) * *mean + sample) / WEIGHT;
}

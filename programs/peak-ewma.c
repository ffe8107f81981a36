/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Peak EWMA: of two mirrors drawn at random, the one with the lower load, which is a moving average
 * of the latency times the number of I/O in flight plus one.
 *
 * A read slower than the average replaces it at once; faster reads lower it slowly, and it decays
 * with a time constant of 10 s. The same as the built-in `research/peak-ewma`, decision by
 * decision: floating-point numbers give the same bits in a program and in the host.
 */
#include "mirrorball_policy.h"

#define MEMBERS_MAX 64

MB_PROGRAM("peak-ewma", "1", "research/peak-ewma",
	   "the lower of two latencies, times the I/O in flight");

MB_PARAM(decay_ms, 10000, 1, 3600000, "time in which a latency falls to 1/e, in milliseconds");

struct peak {
	double cost_ns;
	u64 updated_at_ns;
	u32 is_known;
};

static struct peak peaks[MEMBERS_MAX];

/* The last decay that was computed: mirrors that were compared before share the time since then. */
static u64 last_elapsed_ns;
static double last_decay = 1.0;

/* e to the power of -elapsed / decay time: halving, a short series, squaring. */
static double decay(u64 elapsed_ns)
{
	u32 squarings = 0;
	double x, power;

	if (elapsed_ns == last_elapsed_ns)
		return last_decay;
	/* Signed numbers become floating-point numbers in one instruction. */
	x = (double)(s64)elapsed_ns / (double)(s64)(MB_VALUE(decay_ms) * 1000000);
	while (x > 1.0 / 64.0 && squarings < 64) {
		x /= 2.0;
		squarings++;
	}
	power = 1.0 - x * (1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0)));
	while (squarings--)
		power = power * power;
	last_elapsed_ns = elapsed_ns;
	last_decay = power;
	return power;
}

/* The part of a latency that is left now. */
static double kept_until(const struct peak *peak, u64 now_ns)
{
	return decay(now_ns > peak->updated_at_ns ? now_ns - peak->updated_at_ns : 0);
}

static void observe(struct peak *peak, double wait_ns, u64 now_ns)
{
	double kept = kept_until(peak, now_ns);

	if (peak->is_known && wait_ns <= peak->cost_ns)
		peak->cost_ns = peak->cost_ns * kept + wait_ns * (1.0 - kept);
	else
		peak->cost_ns = wait_ns;
	peak->is_known = 1;
	peak->updated_at_ns = now_ns;
}

/* A rank: members without a measurement come first while no read is in flight there, and last
 * while one is. */
struct rank {
	u32 class;
	u64 load;
};

static struct rank rank_of(const struct mb_choose *c, u32 place)
{
	const struct mb_member *m = &c->mirror[place & (MB_MIRRORS_MAX - 1)].m;
	struct peak *peak = &peaks[m->index & (MEMBERS_MAX - 1)];
	struct rank rank = { 0, 0 };

	if (peak->is_known) {
		/* As an answer without delay would: the terms with 0 are left out. */
		peak->cost_ns *= kept_until(peak, c->now_ns);
		peak->updated_at_ns = c->now_ns;
		rank.class = 1;
		rank.load = (s64)(peak->cost_ns * (double)(s64)(mb_in_flight(m) + 1ull));
	} else if (m->reads_in_flight) {
		rank.class = 2;
		rank.load = mb_in_flight(m);
	}
	mb_note(place, rank.load);
	return rank;
}

MB_CHOOSE(c)
{
	u32 first = mb_random_below(c->nr);
	u32 other = mb_random_below(c->nr - 1);
	u32 second = other + (other >= first);
	struct rank b = rank_of(c, second);
	struct rank a = rank_of(c, first);

	if (b.class < a.class || (b.class == a.class && b.load < a.load))
		return second;
	return first;
}

MB_COMPLETE(e)
{
	if (e->op == MB_READ && e->result == MB_OK)
		observe(&peaks[e->member & (MEMBERS_MAX - 1)], (double)e->wait_ns, e->now_ns);
}

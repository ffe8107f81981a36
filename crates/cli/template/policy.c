/*
 * NAME: a read policy for Mirrorball.
 *
 * Takes the mirror whose next read is expected to end first: a moving average of the time that a
 * read takes on the member, times the I/O in flight there plus one. Change it to your own rule.
 *
 * mirrorball_policy.h describes everything that a policy sees and may call.
 */
#include "mirrorball_policy.h"

/* Name, version, fallback and what it does. The fallback is the built-in policy that decides if
 * this one has a fault; "" is the least I/O in flight. */
MB_PROGRAM("NAME", "0.1", "", "moving average of the read time, times the I/O in flight");

/* A number that the user may set: --policy 'program:NAME.wasm?gain=4'. */
MB_PARAM(gain, 8, 1, 64, "a new read counts as one part in this many");

#define MEMBERS_MAX 64

/* Variables are the state of the policy. Each volume has its own, and they start as zero. */
static u64 average_ns[MEMBERS_MAX];

/* Required: returns the index of the mirror that serves the read. */
MB_CHOOSE(c)
{
	u64 best_ns = ~0ull;
	u32 best = 0;

	MB_EACH_MIRROR(c, i) {
		const struct mb_member *m = &c->mirror[i].m;
		/* Indexes are masked, so that none leaves the array. */
		u64 expected_ns = average_ns[m->index & (MEMBERS_MAX - 1)] * (mb_in_flight(m) + 1);

		/* `mirrorball explain` shows the score of each mirror. */
		mb_note(i, expected_ns);
		if (expected_ns < best_ns) {
			best_ns = expected_ns;
			best = i;
		}
	}
	return best;
}

/* Optional: an I/O ended. */
MB_COMPLETE(e)
{
	u64 *average = &average_ns[e->member & (MEMBERS_MAX - 1)];

	if (e->op != MB_READ || e->result != MB_OK)
		return;
	if (*average == 0)
		*average = e->wait_ns;
	else
		*average += e->wait_ns / MB_VALUE(gain) - *average / MB_VALUE(gain);
}

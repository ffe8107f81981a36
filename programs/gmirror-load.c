/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gmirror load: the disk with the lowest smoothed queue length. A head exactly where the read
 * begins is worth two requests, a head within 1 MiB is worth one.
 *
 * The same as the built-in `gmirror/load`, decision by decision.
 */
#include "mirrorball_policy.h"

#define MEMBERS_MAX 64
#define LOAD_SCALE 256		/* load of one request */
#define TRACK_BYTES (1 << 20)

MB_PROGRAM("gmirror-load", "1", "gmirror/load",
	   "the lowest smoothed queue length, with a bonus for a head in position");

static u64 load[MEMBERS_MAX];
static u64 last_end[MEMBERS_MAX];

static u64 distance(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

static s64 bonus(u64 distance_bytes)
{
	if (distance_bytes == 0)
		return 2 * LOAD_SCALE;
	return distance_bytes < TRACK_BYTES ? LOAD_SCALE : 0;
}

/* Position in the list of disks: by falling priority, of equals the later member first. */
static int is_later(const struct mb_member *a, const struct mb_member *b)
{
	if (a->priority != b->priority)
		return a->priority < b->priority;
	return a->index < b->index;
}

/* Adds the I/O in flight on a member to its smoothed load. */
static void add_load(u32 member, u64 in_flight)
{
	u64 *smoothed = &load[member & (MEMBERS_MAX - 1)];

	*smoothed = (in_flight * LOAD_SCALE + 7 * *smoothed) / 8;
}

MB_CHOOSE(c)
{
	s64 best_score = 0;
	u32 best = 0, chosen;
	u64 shown = 0;

	MB_EACH_MIRROR(c, i) {
		const struct mb_mirror *mirror = &c->mirror[i];
		u32 member = mirror->m.index & (MEMBERS_MAX - 1);
		s64 score = (s64)load[member] - bonus(distance(last_end[member], mirror->offset));

		mb_note(i, score);
		/* Ties go to the last of the list. */
		if (i == 0 || score < best_score ||
		    (score == best_score && is_later(&mirror->m, &c->mirror[best].m))) {
			best = i;
			best_score = score;
		}
	}
	chosen = c->mirror[best].m.index;
	last_end[chosen & (MEMBERS_MAX - 1)] = c->mirror[best].offset + c->length;
	MB_EACH_MIRROR(c, i) {
		u32 member = c->mirror[i].m.index;

		/* The read that is about to be sent counts as well. */
		add_load(member, mb_in_flight(&c->mirror[i].m) + (member == chosen));
		shown |= 1ull << (member & (MEMBERS_MAX - 1));
	}
	/* A helper takes longer than a look at the mirrors, so it is asked only for members that hold
	 * no copy of the block. */
	MB_EACH(i, c->members, MEMBERS_MAX) {
		struct mb_member m;

		if (!(shown >> i & 1) && mb_member(i, &m) == 0)
			add_load(i, mb_in_flight(&m));
	}
	return best;
}

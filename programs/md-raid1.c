/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * md raid1: a read that continues a stream stays on its disk; otherwise an idle disk serves, or the
 * shortest queue where the array has a disk without rotation, or the nearest head.
 *
 * A disk without rotation loses its stream to an idle one once the run reaches its optimal I/O
 * size. The same as the built-in `md/raid1`, decision by decision.
 */
#include "mirrorball_policy.h"

#define MEMBERS_MAX 64

MB_PROGRAM("md-raid1", "1", "md/raid1", "streams, then idle disks, queues or head positions");

struct stream {
	u64 start;
	u64 next;
	u32 has_start;
};

static struct stream streams[MEMBERS_MAX];
static u32 non_rotational;	/* members without rotation */

static void count_non_rotational(void)
{
	struct mb_member m;

	non_rotational = 0;
	MB_EACH(i, MEMBERS_MAX, MEMBERS_MAX)
		if (mb_member(i, &m) == 0 && !(m.flags & (MB_FAILED | MB_ROTATIONAL)))
			non_rotational++;
}

MB_INIT()
{
	count_non_rotational();
}

MB_CHANGE()
{
	count_non_rotational();
}

static struct stream *stream_of(const struct mb_mirror *mirror)
{
	return &streams[mirror->m.index & (MEMBERS_MAX - 1)];
}

/* True if the stream may move to an idle disk. */
static int is_long(const struct stream *stream, const struct mb_member *m)
{
	return !(m->flags & MB_ROTATIONAL) && m->optimal_io_bytes && stream->has_start &&
	       stream->next > m->optimal_io_bytes &&
	       stream->next - m->optimal_io_bytes >= stream->start;
}

static u32 best(const struct mb_choose *c)
{
	u32 least_pending = ~0u, least_place = 0, least_slot = ~0u;
	u32 nearest_place = 0, nearest_slot = ~0u;
	u32 continued_place = 0, continued_slot = ~0u;
	u32 long_place = 0, long_slots = 0;
	u64 nearest = ~0ull;

	/* md looks at its slots in order, and mirrors come in the order of their copies: of two that
	 * are equal, the one with the lower slot serves. */
	MB_EACH_MIRROR(c, place) {
		const struct mb_mirror *mirror = &c->mirror[place];
		const struct stream *stream = stream_of(mirror);
		u32 slot = mirror->m.index;
		u32 pending = mb_in_flight(&mirror->m);
		u64 head = mirror->m.completed_end;
		u64 distance = head > mirror->offset ? head - mirror->offset : mirror->offset - head;

		if (stream->next == mirror->offset || distance == 0) {
			if (!is_long(stream, &mirror->m)) {
				if (slot < continued_slot) {
					continued_slot = slot;
					continued_place = place;
				}
				continue;
			}
			/* An idle disk is then preferred to this one; a busy one is not. */
			pending++;
			if (slot >= long_slots) {
				long_slots = slot + 1;
				long_place = place;
			}
		}
		if (pending < least_pending || (pending == least_pending && slot < least_slot)) {
			least_pending = pending;
			least_slot = slot;
			least_place = place;
		}
		if (distance < nearest || (distance == nearest && slot < nearest_slot)) {
			nearest = distance;
			nearest_slot = slot;
			nearest_place = place;
		}
	}
	if (continued_slot != ~0u)
		return continued_place;
	if (long_slots && least_pending > 0)
		return long_place;
	return non_rotational || least_pending == 0 ? least_place : nearest_place;
}

MB_CHOOSE(c)
{
	u32 place = best(c);
	const struct mb_mirror *mirror = &c->mirror[place & (MB_MIRRORS_MAX - 1)];
	struct stream *stream = stream_of(mirror);

	if (stream->next != mirror->offset) {
		stream->start = mirror->offset;
		stream->has_start = 1;
	}
	stream->next = mirror->offset + c->length;
	return place;
}

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
static u32 any_non_rotational;

static void find_non_rotational(void)
{
	struct mb_member m;

	any_non_rotational = 0;
	MB_EACH(i, MEMBERS_MAX, MEMBERS_MAX)
		if (mb_member(i, &m) == 0 && !(m.flags & (MB_FAILED | MB_ROTATIONAL)))
			any_non_rotational = 1;
}

MB_INIT()
{
	find_non_rotational();
}

MB_CHANGE()
{
	find_non_rotational();
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

/* The mirror with the lowest member index among those after `last`; nr if there is none. */
static u32 next_slot(const struct mb_choose *c, s64 last)
{
	u32 found = c->nr;

	MB_EACH_MIRROR(c, i)
		if ((s64)c->mirror[i].m.index > last &&
		    (found == c->nr || c->mirror[i].m.index < c->mirror[found & (MB_MIRRORS_MAX - 1)].m.index))
			found = i;
	return found;
}

static u32 best(const struct mb_choose *c)
{
	u32 least_pending = ~0u, least_place = 0, nearest_place = 0, has_stream = 0, stream_place = 0;
	u64 nearest = ~0ull;
	s64 last = -1;

	MB_EACH_MIRROR(c, n) {
		u32 place = next_slot(c, last);
		const struct mb_mirror *mirror = &c->mirror[place & (MB_MIRRORS_MAX - 1)];
		const struct stream *stream = stream_of(mirror);
		u32 pending = mb_in_flight(&mirror->m);
		u64 head = mirror->m.completed_end;
		u64 distance = head > mirror->offset ? head - mirror->offset : mirror->offset - head;

		last = mirror->m.index;
		if (stream->next == mirror->offset || distance == 0) {
			if (!is_long(stream, &mirror->m))
				return place;
			/* An idle disk is then preferred to this one; a busy one is not. */
			pending++;
			has_stream = 1;
			stream_place = place;
		}
		if (pending < least_pending) {
			least_pending = pending;
			least_place = place;
		}
		if (distance < nearest) {
			nearest = distance;
			nearest_place = place;
		}
	}
	if (has_stream && least_pending > 0)
		return stream_place;
	return any_non_rotational || least_pending == 0 ? least_place : nearest_place;
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

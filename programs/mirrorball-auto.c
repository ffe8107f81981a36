/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mirrorball/auto: each read goes to the mirror where it costs least, by estimates learned from
 * completed I/O.
 *
 * Flash costs its unloaded latency, the wait behind what is in flight, and the read's own work for
 * each I/O in flight, which it will delay. A disk costs its access time for each I/O in flight and
 * for the read, and more the further the read lies from the addresses that the disk reads most. A
 * disk on which one sequential reader is alone is dedicated to that reader. A read of a stream with
 * many I/O in flight costs more where it delays the I/O of streams that have few. Where reads on
 * flash are often late, a mirror that has room for it reads a second copy; a large read is cut into
 * pieces where that is faster.
 *
 * The same as the built-in `mirrorball/auto`, decision by decision, in an array of up to 64
 * members; docs/paper.md explains the rule and its constants. In the order of this file: load,
 * estimates, locality, runs, affinity, streams, cost, placement, decision, events.
 */
#include "mirrorball_policy.h"

#define MEMBERS_MAX 64

MB_PROGRAM("mirrorball-auto", "1", "mirrorball/auto",
	   "the mirror where the read costs least, by learned estimates");

/* The numbers are those of the built-in's ?without=. It has a tenth, reconstruction from parity,
   for which programs are not asked. */
enum component {
	MARGINAL_COST = 1, LOCALITY, AFFINITY, WRITES, SPLIT, PROBES, FAIRNESS, WORKLOADS, REDUNDANCY
};

MB_PARAM(without, 0, 0, 10, "component left out: 1 marginal cost, ... 9 redundancy, 10 none");

/* Where a read goes to one mirror, none is split or copied, and a probe is the read itself. */
#ifdef MB_ONE_MIRROR
#define ONE_MIRROR 1
#else
#define ONE_MIRROR 0
#endif

static u32 has(enum component component)
{
	return MB_VALUE(without) != component;
}

static u64 min_of(u64 a, u64 b)
{
	return a < b ? a : b;
}

static u64 max_of(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* a - b, or 0 if b is greater. */
static u64 beyond(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* Load: the work that a member has in flight, in sixteenths of an I/O. Bytes add to it: on a disk
 * 1 MiB costs about as much as one access, on flash 8 KiB as much as one command. */

#define IO 16u
#define WORK_MAX (1u << 20)
#define IN_FLIGHT_BYTES_MAX (1ull << 50)

struct load {
	u64 work;
	u64 ios;
};

/* Estimates: a disk has a mean time from one completion to the next, and one of sequential reads.
 * Flash has the latency of a small read with nothing else in flight, the time that each I/O in
 * flight adds, the time of a sequential read, and the mean time by which reads are late. */

#define WAIT_MAX_NS 60000000000ull
#define DAMPING 128		/* loads well below this say little about what load costs */
#define SMALL (5 * IO)		/* latency is estimated from reads of at most this much work */
#define LATE_MAX 16

struct sharer {
	u64 run;
	u64 claim;
	u64 at_ns;
};

struct member {
	u32 is_known;
	u32 is_disk;
	/* Estimates; those of the other kind stay unused. */
	u64 io_ns;		/* of a disk: of an access */
	u64 latency_ns;
	u64 sequential_ns;
	u64 late_ns;
	u32 reads;		/* in the estimates */
	u32 writes;		/* in flight at the last decision */
	struct load load;	/* at the last decision */
	u64 load_before_read;	/* when the member was last given a read */
	u64 progress_at_ns;	/* last completion, or last decision that found the member idle */
	u64 completed_at_ns;
	u64 completed_end;
	u64 read_at_ns;		/* when the member was last given a read */
	/* Locality. */
	u64 centre;
	u32 part_shift;
	/* Affinity. */
	u32 was_ever_written;
	u64 written_at_ns;
	u64 owner;		/* run that the disk is dedicated to, or 0 */
	u64 owner_stream;
	u64 owner_claim;
	u64 owner_read_at_ns;
	u64 owner_next;		/* where its last read ends */
	u32 owner_reads;
	u32 owner_in_flight;	/* of these reads */
	struct sharer sharers[2];
};

static struct member members[MEMBERS_MAX];

static struct member *member_of(const struct mb_choose *c, u32 place)
{
	return &members[c->mirror[place & (MB_MIRRORS_MAX - 1)].m.index & (MEMBERS_MAX - 1)];
}

static u64 work_of_bytes(const struct member *m, u64 bytes)
{
	return (bytes * IO) >> (m->is_disk ? 20 : 13);
}

static u64 work_of(const struct member *m, u64 length)
{
	return IO + work_of_bytes(m, length);
}

/* Approximate time of a read with nothing else in flight. */
static u64 alone_ns(const struct member *m)
{
	return m->is_disk ? m->io_ns : m->latency_ns;
}

/* Wait of a read behind this much work, without its seek. */
static u64 wait_ns(const struct member *m, u64 work, u64 length)
{
	return (m->is_disk ? 0 : m->latency_ns) +
	       (work + work_of_bytes(m, length)) * m->io_ns / IO;
}

/* Time of a read of a sequential run that shares the member with nothing else. */
static u64 sequential_ns(const struct member *m, u64 length)
{
	return m->is_disk ? work_of(m, length) * m->sequential_ns / IO : wait_ns(m, 0, length);
}

/* Time that a read on flash adds to the waits of other I/O. */
static u64 delay_ns(const struct member *m, const struct load *load, u64 length,
		    u32 is_next_to_disk)
{
	u64 ios = min_of(load->ios * work_of(m, length), WORK_MAX);
	u64 delayed = is_next_to_disk ? load->work : ios;

	return m->is_disk ? 0 : delayed * m->io_ns / IO;
}

/* a * b without a wrap, and divided by a number that is not 0. */
static s64 scaled(s64 a, s64 b, u64 divisor)
{
	u64 factor = a < 0 ? -(u64)a : (u64)a;
	u64 limit = ~0ull >> 1;
	u64 product = b && factor > limit / (u64)b ? limit : factor * (u64)b;

	return a < 0 ? -(s64)(product / divisor) : (s64)(product / divisor);
}

/* The power of two by which the difference between a sample and the estimate is divided. */
static u32 weight_shift(u32 reads, u32 usual)
{
	return reads == 1 ? 0 : reads < 8 ? 1 : usual;
}

static void move_estimate(u64 *estimate, s64 difference, u32 shift)
{
	s64 moved = (s64)*estimate + (difference >> shift);

	*estimate = moved > 1 ? moved : 1;
}

static void add_disk_sample(struct member *m, u64 work, u64 service_ns, u32 is_sequential)
{
	u64 *mean_ns = is_sequential ? &m->sequential_ns : &m->io_ns;

	move_estimate(mean_ns, service_ns * IO / work - *mean_ns, weight_shift(m->reads, 4));
}

static void add_flash_sample(struct member *m, u64 work, u64 load_before, u64 wait, u32 was_alone)
{
	s64 load = load_before + work - IO;
	s64 expected_ns = m->latency_ns + load * m->io_ns / IO;
	s64 late_ns = (s64)min_of(wait, LATE_MAX * expected_ns) - expected_ns;
	/* A far longer wait is a stall of the device and says little about load. */
	s64 clipped_ns = min_of(wait, 2 * expected_ns);
	s64 above_ns = clipped_ns - (s64)m->latency_ns;
	s64 per_io_ns = scaled((clipped_ns - expected_ns) * IO, load, load * load + DAMPING * DAMPING);
	s64 io_ns = (s64)m->io_ns + (per_io_ns >> weight_shift(m->reads, 6));
	s64 io_ns_min = max_of(m->latency_ns >> 8, 1);

	m->late_ns += ((late_ns > 0 ? late_ns : 0) - (s64)m->late_ns) >> 5;
	m->io_ns = io_ns > io_ns_min ? io_ns : io_ns_min;
	if (work > SMALL)
		return;
	if (above_ns < 0 || was_alone)
		move_estimate(&m->latency_ns, above_ns, weight_shift(m->reads, 3));
	else if (clipped_ns > expected_ns)
		move_estimate(&m->latency_ns, clipped_ns - expected_ns, 12);
}

/* Updates the estimates from a read that succeeded, and from any other I/O until when the member
 * was busy. */
static void complete_io(struct member *m, const struct mb_event *e, u32 is_owner)
{
	u64 submitted_at_ns = e->now_ns - e->wait_ns;
	u64 began_at_ns = max_of(submitted_at_ns, m->completed_at_ns);
	u64 service_ns = min_of(beyond(e->now_ns, began_at_ns), WAIT_MAX_NS);
	u64 wait = min_of(e->wait_ns, WAIT_MAX_NS);
	u32 is_sequential = m->completed_end == e->offset, was_alone;
	u64 work = work_of(m, e->length), load;

	m->completed_at_ns = e->now_ns;
	m->progress_at_ns = e->now_ns;
	m->completed_end = e->offset + e->length;
	if (e->op != MB_READ)
		return;
	m->reads += m->reads < ~0u;
	if (m->is_disk) {
		/* The first read counts with its whole wait: a write that the disk's cache took in
		 * the meantime would leave almost nothing of it. */
		add_disk_sample(m, work, m->reads == 1 ? wait : service_ns, is_sequential || is_owner);
		return;
	}
	was_alone = m->load_before_read == 0 && service_ns == wait;
	load = was_alone ? 0 : m->load.work;
	if (is_sequential)
		move_estimate(&m->sequential_ns,
			      beyond(wait, load * m->io_ns / IO) * IO / work - m->sequential_ns, 3);
	add_flash_sample(m, work, load, wait, was_alone);
}

/* Locality: the centre of the addresses that a disk reads most. A read costs more the further it
 * lies from there, so the disks of a mirror divide the addresses among them. */

#define PARTS_SHIFT 12
#define BUSY_ACCESSES 64	/* cost at the greatest distance on a busy disk */

/* Time of an access on an idle disk in 256ths of the mean, by distance in 64ths of the disk:
 * rotation and transfer, and a seek that takes the square root of its distance. */
static u32 idle_access[64];

static void set_idle_access(void)
{
	MB_EACH(part, 64, 64) {
		u32 square = 288 * 288 * (2 * part + 1) / 128;
		u32 root = 0;

		/* The square root of it, rounded down. */
		for (u32 bit = 256; bit; bit /= 2)
			if ((root + bit) * (root + bit) <= square)
				root += bit;
		idle_access[part] = 160 + root;
	}
}

static u64 seek_ns(const struct member *m, u64 offset, u64 work)
{
	u64 distance = m->centre > offset ? m->centre - offset : offset - m->centre;
	u64 parts = min_of(distance >> m->part_shift, (1 << PARTS_SHIFT) - 1);

	if (work == 0)
		return (m->io_ns * idle_access[(parts >> (PARTS_SHIFT - 6)) & 63]) >> 8;
	return m->io_ns + ((m->io_ns * parts * (BUSY_ACCESSES + work / 16)) >> PARTS_SHIFT);
}

static void move_centre(struct member *m, u64 offset)
{
	m->centre += (s64)(offset - m->centre) >> 4;
}

/* Runs: reads of the volume of which each begins where the one before it ended, found by the offset
 * at which the next would begin. The strips of one request count as one read. */

#define RUN_SETS_SHIFT 7
#define READER_READS 4
#define RUN_STALE_NS 1000000000ull
#define GOLDEN 0x9e3779b97f4a7c15ull

struct run {
	u64 id;			/* 0 for none; a run that began earlier has a smaller number */
	u64 members;		/* those that served its last read among their mirrors, as bits */
	u64 next;
	u64 read_at_ns;
	u32 reads;
	u32 last;		/* member that served the last read */
};

static struct run runs[1 << RUN_SETS_SHIFT][2];
static u64 last_run;

/* What a decision takes into account. */
static struct {
	struct run run;
	u32 is_strip;		/* the run's last two reads are strips of one request */
	u32 is_reader;		/* the run is long enough to be a sequential reader */
	u32 is_owner;		/* a disk is dedicated to the run */
	u64 claim;		/* of the run to a disk; the least comes first */
	u32 writes_least;	/* in flight on the mirror that has the fewest */
	u32 has_disk;
	/* The stream that reads. */
	u64 others;		/* workloads that are not its own, as bits */
	u32 depth;
	u32 shallow_shift;	/* logarithm of the depth of the deepest other stream over its own */
	u64 excess[MB_MIRRORS_MAX];
} now;

static struct run *run_set(u64 offset)
{
	return runs[(offset * GOLDEN) >> (64 - RUN_SETS_SHIFT)];
}

MB_PART(u32, take_run, c)
{
	struct run *set = run_set(c->offset);
	struct run *found = set[0].next == c->offset && set[0].id ? &set[0] : &set[1];
	const struct run none = { 0 };

	if (found->next == c->offset && found->id) {
		now.run = *found;
		*found = none;
	} else {
		now.run = none;
		now.run.id = ++last_run;
	}
	now.is_strip = now.run.reads > 0 && now.run.read_at_ns == c->now_ns;
	MB_EACH_MIRROR(c, i)
		if (c->mirror[i].m.index == now.run.last)
			now.is_strip = 0;
	now.run.reads += !now.is_strip && now.run.reads < ~0u;
	now.run.next = c->offset + c->length;
	now.run.read_at_ns = c->now_ns;
	now.is_reader = now.run.reads >= READER_READS;
	return 0;
}

static u32 is_live(const struct run *old)
{
	return old->reads >= READER_READS &&
	       beyond(now.run.read_at_ns, old->read_at_ns) < RUN_STALE_NS;
}

MB_PART_OF(u32, put_run, c, place)
{
	struct run *set = run_set(now.run.next);
	u32 live[2] = { is_live(&set[0]), is_live(&set[1]) };
	u32 old = live[1] < live[0] ||
		  (live[1] == live[0] && set[1].read_at_ns < set[0].read_at_ns);

	set[old] = now.run;
	MB_EACH_MIRROR(c, i)
		set[old].members &= ~(1ull << (c->mirror[i].m.index & 63));
	set[old].last = c->mirror[place & (MB_MIRRORS_MAX - 1)].m.index;
	set[old].members |= 1ull << (set[old].last & 63);
	return 0;
}

/* True if this mirror, and no other, served the run's last read that it could serve. */
static u32 was_at(const struct mb_choose *c, u32 place)
{
	return now.run.members >> (c->mirror[place & (MB_MIRRORS_MAX - 1)].m.index & 63) & 1;
}

/* Affinity: the run to which a disk is dedicated (its owner), and the last two others. */

#define OWNER_TIMEOUT_NS 80000000ull
#define SHARER_TIMEOUT_NS 400000000ull

static u32 was_written(const struct member *m, u64 now_ns)
{
	return m->was_ever_written && beyond(now_ns, m->written_at_ns) < OWNER_TIMEOUT_NS;
}

static u32 is_dedicated(const struct member *m, u64 now_ns)
{
	return m->owner && beyond(now_ns, m->owner_read_at_ns) < OWNER_TIMEOUT_NS &&
	       !was_written(m, now_ns);
}

/* A claim is the logarithm of the depth of the run's workload, and the run's number below it: the
 * reader with the fewest I/O in flight comes first, of like ones the oldest. */
#define CLAIM_RUN_BITS 56

/* True if the disk is dedicated to no other run, or to one that is several times as deep. */
static u32 is_free(const struct member *m, u64 now_ns)
{
	return !is_dedicated(m, now_ns) || m->owner == now.run.id ||
	       m->owner_claim >> CLAIM_RUN_BITS > (now.claim >> CLAIM_RUN_BITS) + 1;
}

/* The first claim of the other runs that recently shared the disk, or ~0. */
static u64 first_sharer(const struct member *m, u64 now_ns)
{
	u64 first = ~0ull;

	for (u32 i = 0; i < 2; i++)
		if (m->sharers[i].run && m->sharers[i].run != now.run.id &&
		    beyond(now_ns, m->sharers[i].at_ns) < SHARER_TIMEOUT_NS)
			first = min_of(first, m->sharers[i].claim);
	return first;
}

static void read_as_owner(struct member *m, u64 stream, u64 end, u64 now_ns)
{
	u32 is_owner = m->owner == now.run.id;

	m->owner_reads = is_owner ? m->owner_reads + (m->owner_reads < ~0u) : 0;
	m->owner_in_flight = is_owner ? m->owner_in_flight + 1 : 1;
	m->owner_next = end;
	m->owner = now.run.id;
	m->owner_claim = now.claim;
	m->owner_stream = stream;
	m->owner_read_at_ns = now_ns;
	for (u32 i = 0; i < 2; i++)
		if (m->sharers[i].run == now.run.id)
			m->sharers[i].run = 0;
}

static void read_as_sharer(struct member *m, u64 now_ns)
{
	if (m->sharers[0].run != now.run.id)
		m->sharers[1] = m->sharers[0];
	m->sharers[0].run = now.run.id;
	m->sharers[0].claim = now.claim;
	m->sharers[0].at_ns = now_ns;
}

static void release(struct member *m)
{
	if (m->owner == now.run.id)
		m->owner = 0;
}

/* Streams: how much each has in flight, and in what part of the volume. Those of like size, depth
 * and place count as one workload, with the depth of all together. */

#define SLOTS 64
#define WAYS 4
#define SETS_SHIFT 4
#define WINDOW 16
#define PLACE_READS 5
#define PLACE_PARTS_BITS 6
#define NARROW_PARTS 8
#define DEPTH_MAX 255
#define COUNT_MAX 4095
#define BACKGROUND_DEPTH 64
#define EXCESS_BITS 4
#define SIZES 16
#define DEPTHS 4
#define PLACE_UNKNOWN 9

struct stream {
	u64 id;
	u64 end;		/* of its last I/O */
	u64 used_at;		/* I/O that the table had seen at its last one */
	u32 in_flight;
	u32 submitted;		/* in the present window */
	u32 peaks[2];		/* most in flight in the present window, and in the one before */
	u32 low[2], high[2];	/* parts of the volume touched in the same windows */
	u32 workload;		/* while the stream has I/O in flight */
};

struct workload {
	u32 kind;
	u32 streams;
	u32 depth;		/* sum of its streams' */
};

static struct stream streams[SLOTS];
static struct workload workloads[SLOTS];
static u64 live_workloads;	/* a bit for each with I/O in flight */
static u16 inverse[SLOTS];	/* of workloads: 2^16 / depth, rounded up */
static u32 of_stream[MEMBERS_MAX][SLOTS];
static u32 of_workload[MEMBERS_MAX][SLOTS];
static u64 stream_ios;
static u64 volume_end = 1 << PLACE_PARTS_BITS;
static u32 members_nr;

static u16 inverse_of(u32 depth)
{
	return depth < 2 ? 0xffff : ((1u << 16) + depth - 1) / depth;
}

static u32 lowest_bit(u64 set)
{
	return mb_log2(set & -set) & (SLOTS - 1);
}

static void clear_stream(struct stream *stream, u64 id)
{
	const struct stream fresh = { .id = id, .end = ~0ull, .low = { 255, 255 } };

	*stream = fresh;
}

static u32 first_slot(u64 id)
{
	return (id * GOLDEN) >> (64 - SETS_SHIFT) << 2;
}

/* The slot of a stream, or SLOTS. */
MB_ALONE u32 slot_of(u64 id)
{
	u32 first = first_slot(id);

	MB_EACH(way, WAYS, WAYS)
		if (streams[first + way].id == id)
			return first + way;
	return SLOTS;
}

/* The workload of a kind, or SLOTS. A stream whose place is not known yet most likely belongs to
 * the largest workload that is like it but for that. */
MB_ALONE u32 workload_of(u32 kind)
{
	u64 left = live_workloads;
	u32 best = SLOTS, most = 0;

	MB_EACH(n, SLOTS, SLOTS) {
		u32 i = lowest_bit(left);
		const struct workload *workload = &workloads[i];

		if (!left)
			break;
		left &= left - 1;
		if (kind / (SIZES * DEPTHS) != PLACE_UNKNOWN) {
			if (workload->kind == kind)
				return i;
		} else if (workload->kind % (SIZES * DEPTHS) == kind % (SIZES * DEPTHS) &&
			   workload->streams > most) {
			most = workload->streams;
			best = i;
		}
	}
	return best;
}

/* Changes the depth of one of the streams of a workload. */
static void deepen(u32 i, u32 old, u32 new)
{
	struct workload *workload = &workloads[i & (SLOTS - 1)];

	workload->depth = workload->depth - old + new;
	inverse[i & (SLOTS - 1)] = inverse_of(min_of(workload->depth, DEPTH_MAX));
}

static u32 join(u32 kind, u32 depth)
{
	u32 i = workload_of(kind);
	const struct workload fresh = { .kind = kind };

	if (i == SLOTS) {
		i = lowest_bit(~live_workloads);
		live_workloads |= 1ull << i;
		workloads[i] = fresh;
	}
	workloads[i & (SLOTS - 1)].streams++;
	deepen(i, 0, depth);
	return i;
}

static void leave(u32 i, u32 depth)
{
	deepen(i, depth, 0);
	if (--workloads[i & (SLOTS - 1)].streams == 0)
		live_workloads &= ~(1ull << (i & (SLOTS - 1)));
}

/* The most that a stream recently had in flight. */
static u32 depth_of(const struct stream *stream)
{
	return max_of(stream->peaks[0], stream->peaks[1]);
}

/* 0 for all of the volume, 1 to 8 for one eighth of it, or PLACE_UNKNOWN. */
static u32 place_of(const struct stream *stream)
{
	u32 low = min_of(stream->low[0], stream->low[1]);
	u32 high = max_of(stream->high[0], stream->high[1]);

	if (stream->peaks[1] == 0 && stream->submitted < PLACE_READS)
		return PLACE_UNKNOWN;
	return beyond(high, low) <= NARROW_PARTS ? (low + high) / 2 / NARROW_PARTS + 1 : 0;
}

/* What a stream has in common with those that read alike. */
MB_ALONE u32 kind_of(u32 slot, u64 length)
{
	const struct stream *stream = &streams[slot & (SLOTS - 1)];
	u32 size = min_of(beyond(mb_log2(length), 12), SIZES - 1);

	if (!has(WORKLOADS))
		return ~0u - slot;
	if (slot == SLOTS)
		return (PLACE_UNKNOWN * SIZES + size) * DEPTHS;
	return (place_of(stream) * SIZES + size) * DEPTHS +
	       min_of(mb_log2(max_of(depth_of(stream), 1)), DEPTHS - 1);
}

/* Takes a stream and its I/O in flight out of its workload. */
MB_ALONE u32 take_out(u32 slot)
{
	const struct stream *stream = &streams[slot & (SLOTS - 1)];

	MB_EACH(i, members_nr, MEMBERS_MAX)
		of_workload[i][stream->workload & (SLOTS - 1)] -=
			of_stream[i][slot & (SLOTS - 1)];
	leave(stream->workload, depth_of(stream));
	return 0;
}

/* The slot that a stream without one is to have: one without I/O in flight, of these the one used
 * least recently; else one of the workload with the most streams, of these the one used most
 * recently. */
MB_ALONE u32 worst_slot(u64 id)
{
	u32 first = first_slot(id), worst = first, worst_streams = 0;
	u64 worst_age = ~0ull;

	MB_EACH(way, WAYS, WAYS) {
		const struct stream *stream = &streams[first + way];
		u32 alike = stream->in_flight ? workloads[stream->workload & (SLOTS - 1)].streams
					      : ~0u;
		u64 age = stream->in_flight ? ~stream->used_at : stream->used_at;

		if (alike > worst_streams || (alike == worst_streams && age < worst_age)) {
			worst = first + way;
			worst_streams = alike;
			worst_age = age;
		}
	}
	return worst;
}

MB_ALONE u32 slot_for(u64 id)
{
	u32 slot = slot_of(id);

	if (slot < SLOTS)
		return slot;
	slot = worst_slot(id) & (SLOTS - 1);
	if (streams[slot].in_flight) {
		take_out(slot);
		MB_EACH(i, members_nr, MEMBERS_MAX)
			of_stream[i][slot] = 0;
	}
	clear_stream(&streams[slot], id);
	return slot;
}

/* Counts a stream to the workload of an I/O that is submitted. */
MB_ALONE u32 classify(u32 slot, u64 length)
{
	struct stream *stream = &streams[slot & (SLOTS - 1)];
	u32 kind = kind_of(slot, length);

	if (stream->in_flight) {
		if (workload_of(kind) == stream->workload)
			return 0;
		take_out(slot);
	}
	stream->workload = join(kind, depth_of(stream));
	if (!stream->in_flight)
		return 0;
	MB_EACH(i, members_nr, MEMBERS_MAX)
		of_workload[i][stream->workload & (SLOTS - 1)] +=
			of_stream[i][slot & (SLOTS - 1)];
	return 0;
}

/* Records the depth and the place of an I/O. */
static void measure(struct stream *stream, const struct mb_event *e)
{
	u32 part;

	volume_end = max_of(volume_end, e->volume_offset + e->length);
	part = e->volume_offset >> (mb_log2(volume_end) + 1 - PLACE_PARTS_BITS);
	stream->used_at = ++stream_ios;
	stream->in_flight++;
	if (stream->submitted == WINDOW) {
		stream->submitted = 0;
		stream->peaks[1] = stream->peaks[0];
		stream->low[1] = stream->low[0];
		stream->high[1] = stream->high[0];
		stream->peaks[0] = 0;
		stream->low[0] = 255;
		stream->high[0] = 0;
	}
	stream->submitted++;
	stream->peaks[0] = max_of(stream->peaks[0], stream->in_flight);
	/* A sequential reader has no place. */
	if (e->volume_offset == stream->end) {
		stream->low[0] = 0;
		stream->high[0] = 255;
	}
	stream->low[0] = min_of(stream->low[0], part);
	stream->high[0] = max_of(stream->high[0], part);
	stream->end = e->volume_offset + e->length;
}

static void submit_of_stream(const struct mb_event *e)
{
	struct stream *stream;
	u32 slot, before;

	if (e->flags & MB_EVENT_BACKGROUND)
		return;
	slot = slot_for(e->stream) & (SLOTS - 1);
	stream = &streams[slot];
	if (!stream->in_flight ||
	    (stream->submitted && !(stream->submitted & (stream->submitted - 1))))
		classify(slot, e->length);
	before = depth_of(stream);
	measure(stream, e);
	deepen(stream->workload, before, depth_of(stream));
	of_stream[e->member & (MEMBERS_MAX - 1)][slot]++;
	of_workload[e->member & (MEMBERS_MAX - 1)][stream->workload & (SLOTS - 1)]++;
}

static void complete_of_stream(const struct mb_event *e)
{
	u32 slot = e->flags & MB_EVENT_BACKGROUND ? SLOTS : slot_of(e->stream);
	struct stream *stream = &streams[slot & (SLOTS - 1)];
	u32 *count = &of_stream[e->member & (MEMBERS_MAX - 1)][slot & (SLOTS - 1)];

	/* 0 if the stream gave up its slot while the I/O was in flight. */
	if (slot == SLOTS || *count == 0)
		return;
	--*count;
	of_workload[e->member & (MEMBERS_MAX - 1)][stream->workload & (SLOTS - 1)]--;
	if (--stream->in_flight == 0)
		leave(stream->workload, depth_of(stream));
}

/* How many I/O of its own the stream must count for those of other workloads on a member, beyond
 * each once, in sixteenths. Workloads of equal depth count twice: they keep apart. */
MB_ALONE u64 excess_on(u32 member)
{
	/* A little more than the depth, so that rounding down does not make equal ones unequal. */
	u32 depth = (2 * now.depth << EXCESS_BITS) + 1;
	u64 left = now.others, all = 0;

	MB_TURNS(n, SLOTS) {
		u32 i = lowest_bit(left);
		u32 ratio = (depth * inverse[i]) >> 16;

		if (!left)
			break;
		left &= left - 1;
		all += beyond(ratio, 1 << EXCESS_BITS) *
		       min_of(of_workload[member & (MEMBERS_MAX - 1)][i], COUNT_MAX);
	}
	return all;
}

/* Logarithm of the depth of the deepest other workload over that of this one, if that is more. */
MB_ALONE u32 shallow_shift(void)
{
	u64 left = now.others;
	u32 least = 0xffff;

	MB_TURNS(n, SLOTS) {
		if (!left)
			break;
		least = min_of(least, inverse[lowest_bit(left)]);
		left &= left - 1;
	}
	/* Less one, so that one over a power of two counts as less than that. */
	return beyond(mb_log2(inverse_of(now.depth) - 1), mb_log2(least - 1));
}

MB_PART(u32, find_stream, c)
{
	u32 is_background = c->flags & MB_BACKGROUND;
	u32 slot = is_background ? SLOTS : slot_of(c->stream), own = SLOTS;
	const struct stream *stream = &streams[slot & (SLOTS - 1)];

	now.depth = BACKGROUND_DEPTH;
	if (slot < SLOTS && stream->in_flight) {
		own = stream->workload;
		now.depth = max_of(workloads[own & (SLOTS - 1)].depth, stream->in_flight + 1);
	} else if (!is_background) {
		own = workload_of(kind_of(slot, c->length));
		now.depth = slot < SLOTS ? max_of(depth_of(stream), 1) : 1;
		if (own < SLOTS)
			now.depth += workloads[own & (SLOTS - 1)].depth;
	}
	now.others = live_workloads & ~(own < SLOTS ? 1ull << own : 0);
	now.depth = min_of(now.depth, DEPTH_MAX);
	now.shallow_shift = shallow_shift();
	if (!now.others)
		return 0;
	MB_EACH_MIRROR(c, i)
		now.excess[i] = excess_on(c->mirror[i].m.index);
	return 0;
}

/* Cost of a read at a mirror; all costs are times. */

#define IO_PER_WRITE_BEHIND 4
#define FAIRNESS_FLASH 2
#define FAIRNESS_DISK 4
#define GOES_ON 4
#define DEDICATED_ACCESSES 1000
#define INTRUSION_ACCESSES 2

struct cost {
	u64 own_ns;		/* what the read itself waits for */
	u64 others_ns;		/* what it adds to the waits of other I/O */
};

/* For how long flash with I/O in flight has completed nothing, beyond twice its latency. */
static u64 overdue_ns(const struct member *m, u64 work, u64 now_ns)
{
	if (m->is_disk || work == 0)
		return 0;
	return beyond(min_of(beyond(now_ns, m->progress_at_ns), WAIT_MAX_NS), 2 * m->latency_ns);
}

/* What only a disk costs: the seek, an owner that is disturbed, writes that wait. */
static u64 disk_ns(const struct mb_choose *c, u32 place, const struct member *m)
{
	u64 cost_ns = m->io_ns, accesses = 0;

	if (has(LOCALITY)) {
		u64 offset = c->mirror[place & (MB_MIRRORS_MAX - 1)].offset;
		u64 seek = seek_ns(m, offset, m->load.work);
		u32 shift = has(FAIRNESS) && m->load.work > 0 ? now.shallow_shift : 0;

		/* On a busy disk a long seek mostly delays the others, whose reads are worth less. */
		cost_ns = min_of(seek, m->io_ns) + (beyond(seek, m->io_ns) >> shift);
		/* The disk reads ahead where a sequential reader goes on. */
		if (now.is_reader && was_at(c, place))
			cost_ns = min_of(seek, m->io_ns / GOES_ON);
	}
	if (m->owner != now.run.id && is_dedicated(m, c->now_ns))
		accesses = now.is_reader || c->flags & MB_BACKGROUND
				   ? DEDICATED_ACCESSES
				   : INTRUSION_ACCESSES * max_of(now.depth, 1);
	if (has(WRITES))
		accesses += IO_PER_WRITE_BEHIND * (u64)(m->writes - now.writes_least);
	return cost_ns + accesses * m->io_ns;
}

/* Adds the cost of a part of the read, of this length, behind a load: the read waits for its
 * slowest part, and all parts delay others. */
static void add_cost(const struct mb_choose *c, u32 place, const struct load *load, u64 length,
		     struct cost *cost)
{
	const struct member *m = member_of(c, place);
	u64 own_ns = wait_ns(m, load->work, length);

	if (!m->is_disk && now.is_reader && was_at(c, place)) {
		u64 run_ns = work_of(m, length) * m->sequential_ns / IO;

		own_ns = beyond(own_ns, beyond(wait_ns(m, 0, length), run_ns));
	}
	own_ns += overdue_ns(m, load->work, c->now_ns);
	if (m->is_disk)
		own_ns += disk_ns(c, place, m);
	if (has(MARGINAL_COST))
		cost->others_ns += delay_ns(m, load, length, now.has_disk);
	if (now.others && has(FAIRNESS)) {
		u64 excess = now.excess[place & (MB_MIRRORS_MAX - 1)];
		u64 delayed = min_of((excess * work_of(m, length) / IO) >> EXCESS_BITS, WORK_MAX);

		cost->others_ns += delayed * m->io_ns * (m->is_disk ? FAIRNESS_DISK : FAIRNESS_FLASH);
	}
	cost->own_ns = max_of(cost->own_ns, own_ns);
}

MB_PART_OF(u64, cost_ns, c, place)
{
	struct cost cost = { 0, 0 };

	add_cost(c, place, &member_of(c, place)->load, c->length, &cost);
	return cost.own_ns + cost.others_ns;
}

/* Mirrors of equal cost take turns: the first after `turn` is taken. */
static u32 turn;

MB_PART(u32, cheapest, c)
{
	u64 best_ns = ~0ull;
	u32 best = 0, best_round = ~0u;

	MB_EACH_MIRROR(c, i) {
		u32 round = turn + i + 1 >= c->nr ? turn + i + 1 - c->nr : turn + i + 1;
		u64 ns = cost_ns(c, i);

		mb_note(i, ns);
		if (ns < best_ns || (ns == best_ns && round < best_round)) {
			best_ns = ns;
			best = i;
			best_round = round;
		}
	}
	return best;
}

MB_PART_OF(u32, cheapest_other, c, place)
{
	u64 best_ns = ~0ull;
	u32 best = place == 0;

	MB_EACH_MIRROR(c, i) {
		u64 ns = i == place ? ~0ull : cost_ns(c, i);

		if (ns < best_ns) {
			best_ns = ns;
			best = i;
		}
	}
	return best;
}

/* Placement without comparing costs: a disk that is, or from now on shall be, dedicated to a
 * sequential reader, and the disk that serves another strip of the same request. */

#define NO_PLACE MB_MIRRORS_MAX
#define UNDEDICATED (NO_PLACE + 1)
#define READS_BEFORE_MOVE 32
#define SEEK_SPREAD_READS 64
#define SKIP_BYTES (64ull << 20)

/* Cost of the reader's run at a mirror, for a comparison among mirrors. */
static u64 run_ns(const struct mb_choose *c, const struct member *m)
{
	u64 ns = sequential_ns(m, c->length);

	if (m->is_disk)
		ns += m->io_ns / min_of(now.run.reads, SEEK_SPREAD_READS);
	else if (first_sharer(m, c->now_ns) != ~0ull)
		ns = wait_ns(m, m->load.work, c->length) + delay_ns(m, &m->load, c->length, 1);
	return ns + ns / 4;
}

/* What the mirrors have in common; in memory, where a verifier does not follow the numbers. */
static u32 own_disk;		/* from which the run may move, or NO_PLACE */
static u32 free_mirrors;
static u64 first_of_all;	/* first claim of a sharer of any, or ~0 */

/* The disk with the copy at the lowest offset. */
MB_PART(u32, disk_of_first_copy, c)
{
	u32 first = 0;

	MB_EACH_MIRROR(c, i)
		if (c->mirror[i].offset < c->mirror[first & (MB_MIRRORS_MAX - 1)].offset)
			first = i;
	return member_of(c, first)->is_disk ? first : UNDEDICATED;
}

/* The disk where the run stays, NO_PLACE if that is to be found, or UNDEDICATED. */
MB_PART(u32, disk_of_owner, c)
{
	own_disk = NO_PLACE;
	free_mirrors = 0;
	first_of_all = ~0ull;
	MB_EACH_MIRROR(c, i) {
		const struct member *m = member_of(c, i);
		u32 is_owner = m->owner == now.run.id;

		if (was_written(m, c->now_ns))
			return UNDEDICATED;
		if (is_owner && is_dedicated(m, c->now_ns)) {
			u64 offset = c->mirror[i].offset;

			if (beyond(offset, m->owner_next) > SKIP_BYTES ||
			    beyond(m->owner_next, offset) > SKIP_BYTES)
				return disk_of_first_copy(c);
			if (m->owner_reads < READS_BEFORE_MOVE)
				return i;
			own_disk = i;
		}
		free_mirrors += is_free(m, c->now_ns);
		first_of_all = min_of(first_of_all, first_sharer(m, c->now_ns));
	}
	return NO_PLACE;
}

/* Cost of the run at a mirror, or ~0 where it may not go. */
MB_PART_OF(u64, ns_of_run, c, place)
{
	const struct member *m = member_of(c, place);
	u32 may_own = first_of_all == ~0ull || free_mirrors >= 2;

	if (place != own_disk && m->is_disk && (!may_own || !is_free(m, c->now_ns)))
		return ~0ull;
	return place == own_disk && m->is_disk ? sequential_ns(m, c->length) : run_ns(c, m);
}

MB_PART(u32, dedicated_disk, c)
{
	u32 best = NO_PLACE;
	u64 best_ns = ~0ull;

	if (c->flags & MB_BACKGROUND || !now.is_reader || !has(AFFINITY))
		return NO_PLACE;
	best = disk_of_owner(c);
	if (best != NO_PLACE)
		return best == UNDEDICATED ? NO_PLACE : best;
	if (own_disk == NO_PLACE && first_of_all < now.claim)
		return NO_PLACE;
	MB_EACH_MIRROR(c, i) {
		u64 ns = ns_of_run(c, i);

		if (ns < best_ns) {
			best_ns = ns;
			best = i;
		}
	}
	return best < NO_PLACE && member_of(c, best)->is_disk ? best : NO_PLACE;
}

MB_PART(u32, disk_of_strip, c)
{
	if (!now.is_strip)
		return NO_PLACE;
	MB_EACH_MIRROR(c, i) {
		const struct member *m = member_of(c, i);

		if (m->is_disk && m->read_at_ns == c->now_ns && was_at(c, i))
			return i;
	}
	return NO_PLACE;
}

/* Splitting a large read over flash, where that takes less time than it costs the others. */

#define SPLIT_BYTES_MIN 65536

/* Cost of the read in parts: the wait for the slowest, and what all add to the waits of others. */
MB_PART_OF(u64, split_ns, c, set)
{
	struct cost cost = { 0, 0 };
	u64 parts = 0;

	MB_EACH(i, MB_MIRRORS_MAX, MB_MIRRORS_MAX)
		parts += set >> i & 1;
	MB_EACH_MIRROR(c, i)
		if (set >> i & 1)
			add_cost(c, i, &member_of(c, i)->load, mb_div(c->length, parts), &cost);
	return cost.own_ns + cost.others_ns;
}

/* Cost as if nothing were in flight: the reader's own reads are split as well. */
static u64 reader_ns(const struct mb_choose *c, u32 place, u64 length)
{
	const struct load none = { 0, 0 };
	struct cost cost = { 0, 0 };

	add_cost(c, place, &none, length, &cost);
	return cost.own_ns + cost.others_ns;
}

/* True if the mirrors together have no more in flight than a part of this read each. */
static u32 has_one_read_at_most(const struct mb_choose *c)
{
	u64 in_flight = 0, parts = 0;

	MB_EACH_MIRROR(c, i) {
		in_flight += member_of(c, i)->load.work;
		parts += work_of(member_of(c, i), mb_div(c->length, c->nr));
	}
	return in_flight <= parts;
}

/* The mirrors to split the read over, as bits, or 0. */
MB_PART_OF(u32, set_of_split, c, place)
{
	u32 all = (1u << c->nr) - 1, best = all;

	if (c->length < SPLIT_BYTES_MIN || !has(SPLIT) || now.has_disk)
		return 0;
	if (now.is_reader && has_one_read_at_most(c)) {
		u64 whole_ns = reader_ns(c, place, c->length);

		MB_EACH_MIRROR(c, i)
			if (reader_ns(c, i, mb_div(c->length, c->nr)) >= whole_ns)
				return 0;
		return all;
	}
	if (c->nr > 2) {
		u32 pair = 1u << place | 1u << cheapest_other(c, place);

		if (split_ns(c, pair) <= split_ns(c, all))
			best = pair;
	}
	return split_ns(c, best) < cost_ns(c, place) ? best : 0;
}

/* Redundancy: where reads on flash are late by more than they take, a second mirror reads as well,
 * if what that delays there costs less. */

#define DELAYS 2

/* The mirror that should read a copy, or NO_PLACE. */
MB_PART_OF(u32, second_copy, c, place)
{
	const struct member *first = member_of(c, place), *m;
	u64 first_ns = wait_ns(first, first->load.work, c->length), delayed_ns, behind_ns;
	u32 second;

	if (now.has_disk || !has(REDUNDANCY) || first->late_ns + first->late_ns / 2 <= first_ns)
		return NO_PLACE;
	second = cheapest_other(c, place);
	m = member_of(c, second);
	delayed_ns = DELAYS * (m->load.ios + 1) * (work_of(m, c->length) * m->io_ns / IO);
	behind_ns = beyond(wait_ns(m, m->load.work, c->length), first_ns);
	return first->late_ns > delayed_ns + behind_ns ? second : NO_PLACE;
}

/* The decision, and what it changes. */

/* A member is probed once in this many times what a read takes there. */
#define PROBE_INTERVAL_READS 64

MB_PART(u32, update_loads, c)
{
	now.writes_least = ~0u;
	now.has_disk = 0;
	MB_EACH_MIRROR(c, i) {
		const struct mb_member *from = &c->mirror[i].m;
		struct member *m = member_of(c, i);
		u64 bytes = min_of(from->bytes_in_flight, IN_FLIGHT_BYTES_MAX);

		m->load.ios = mb_in_flight(from);
		m->load.work = min_of(m->load.ios * IO + work_of_bytes(m, bytes), WORK_MAX);
		m->writes = from->writes_in_flight;
		if (m->load.work == 0)
			m->progress_at_ns = c->now_ns;
		now.writes_least = min_of(now.writes_least, m->writes);
		now.has_disk |= m->is_disk;
	}
	return 0;
}

static void begin_read(struct member *m, u64 now_ns)
{
	m->read_at_ns = now_ns;
	m->load_before_read = m->load.work;
}

/* True if an idle member that was not read for long should get a copy of a read. */
static u32 is_probe_due(const struct member *m, u64 now_ns)
{
	return m->load.work == 0 &&
	       beyond(now_ns, m->read_at_ns) > PROBE_INTERVAL_READS * alone_ns(m) &&
	       !is_dedicated(m, now_ns);
}

/* Records a choice; returns the mirror to probe with a copy of the read, or NO_PLACE. */
MB_PART_OF(u32, record_choice, c, chosen)
{
	u32 is_background = c->flags & MB_BACKGROUND, due = NO_PLACE;
	struct member *m = member_of(c, chosen);
	u64 offset = c->mirror[chosen & (MB_MIRRORS_MAX - 1)].offset;

	MB_EACH_MIRROR(c, i) {
		struct member *other = member_of(c, i);

		if (i == chosen)
			continue;
		release(other);
		if (!is_background && has(PROBES) && due == NO_PLACE &&
		    is_probe_due(other, c->now_ns))
			due = i;
	}
	begin_read(m, c->now_ns);
	if (now.is_owner) {
		read_as_owner(m, c->stream, offset + c->length, c->now_ns);
		return due;
	}
	release(m);
	move_centre(m, offset);
	if (!is_background)
		read_as_sharer(m, c->now_ns);
	return due;
}

/* Records that a read goes to all mirrors of a set. */
MB_PART_OF(u32, record_set, c, set)
{
	MB_EACH_MIRROR(c, i)
		if (set >> i & 1)
			begin_read(member_of(c, i), c->now_ns);
	return 0;
}

MB_CHOOSE(c)
{
	u32 place, probed, second, set;

	take_run(c);
	find_stream(c);
	now.claim = (u64)mb_log2(now.depth) << CLAIM_RUN_BITS | now.run.id;
	place = dedicated_disk(c);
	now.is_owner = place != NO_PLACE;
	update_loads(c);
	if (place == NO_PLACE)
		place = disk_of_strip(c);
	if (place == NO_PLACE)
		place = cheapest(c);
	turn = turn + 1 < c->nr ? turn + 1 : 0;
	put_run(c, place);
	probed = record_choice(c, place);
	set = ONE_MIRROR ? 0 : set_of_split(c, place);
	if (set) {
		record_set(c, set);
		mb_split(set);
		return place;
	}
	if (probed != NO_PLACE) {
		/* The member's next read replaces its estimates. */
		begin_read(member_of(c, probed), c->now_ns);
		member_of(c, probed)->reads = 0;
		if (ONE_MIRROR)
			return probed;
		mb_read_all(1u << place | 1u << probed);
		return place;
	}
	if (ONE_MIRROR)
		return place;
	second = c->flags & MB_BACKGROUND ? NO_PLACE : second_copy(c, place);
	if (second != NO_PLACE) {
		set = 1u << place | 1u << second;
		record_set(c, set);
		mb_read_all(set);
	}
	return place;
}

MB_SUBMIT(e)
{
	struct member *m = &members[e->member & (MEMBERS_MAX - 1)];

	submit_of_stream(e);
	if (e->op == MB_WRITE && !(e->flags & MB_EVENT_BACKGROUND)) {
		m->was_ever_written = 1;
		m->written_at_ns = e->now_ns;
	}
	/* A read that only this member could serve moves its locality. */
	if (e->op == MB_READ && e->purpose == MB_USER && m->read_at_ns != e->now_ns) {
		m->read_at_ns = e->now_ns;
		move_centre(m, e->offset);
	}
}

MB_COMPLETE(e)
{
	struct member *m = &members[e->member & (MEMBERS_MAX - 1)];
	u32 is_owner = m->owner && m->owner_stream == e->stream && m->owner_in_flight;

	complete_of_stream(e);
	if (e->result != MB_OK)
		return;
	if (is_owner) {
		m->owner_in_flight--;
		m->owner_read_at_ns = e->now_ns;
	}
	complete_io(m, e, is_owner);
}

/* A new member starts with estimates that its first reads replace, and so does one that failed or
 * is of the other kind, as the device of a slot that was empty may be. */
static void start_members(void)
{
	struct mb_member from;

	MB_EACH(i, MEMBERS_MAX, MEMBERS_MAX) {
		struct member *m = &members[i];
		const struct member fresh = { .is_known = 1 };

		if (mb_member(i, &from) != 0)
			break;
		members_nr = max_of(members_nr, i + 1);
		if (m->is_known && !(from.flags & MB_FAILED) &&
		    m->is_disk == (from.flags & MB_ROTATIONAL))
			continue;
		*m = fresh;
		m->is_disk = from.flags & MB_ROTATIONAL;
		m->io_ns = m->is_disk ? 8000000 : 2000;
		m->latency_ns = 100000;
		m->sequential_ns = m->is_disk ? 400000 : 500;
		m->centre = from.size_bytes / 2;
		m->part_shift = beyond(mb_log2(from.size_bytes) + 1, PARTS_SHIFT);
	}
}

MB_INIT()
{
	set_idle_access();
	MB_EACH(slot, SLOTS, SLOTS) {
		inverse[slot] = inverse_of(1);
		clear_stream(&streams[slot], 0);
	}
	start_members();
}

MB_CHANGE()
{
	start_members();
}

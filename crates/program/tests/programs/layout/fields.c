/* Every field has the value that layout.rs gives it; the line of a field that has not is the code
 * of mb_error. */
#include "mirrorball_policy.h"

MB_PROGRAM("fields", "1.2", "btrfs/pid", "compares fields");
MB_PARAM(first, 7, 1, 9, "the first");
MB_PARAM(second, 8, 2, 10, "the second, in bytes");

#define IS(field, number)                                                                         \
	do {                                                                                      \
		if ((u64)(field) != (number))                                                     \
			mb_error(__LINE__);                                                       \
	} while (0)

static void check_member(const struct mb_member *m, u32 index)
{
	u64 n = 1000 * (index + 1);

	IS(m->index, index);
	IS(m->flags, index == 0 ? MB_ROTATIONAL | MB_REBUILDING : MB_WRITE_MOSTLY | MB_FAILED);
	IS(m->devid, n + 1);
	IS(m->size_bytes, n + 2);
	IS(m->optimal_io_bytes, n + 3);
	IS(m->queue_depth, n + 4);
	IS(m->priority, n + 5);
	IS(m->reads_in_flight, n + 6);
	IS(m->writes_in_flight, n + 7);
	IS(mb_in_flight(m), 2 * n + 13);
	IS(m->bytes_in_flight, n + 8);
	IS(m->submitted_end, n + 9);
	IS(m->completed_end, n + 10);
	IS(m->submitted_at_ns, n + 11);
	IS(m->last_wait_ns, n + 12);
	IS(m->reads_completed, n + 13);
	IS(m->read_bytes, n + 14);
	IS(m->read_wait_ns, n + 15);
	IS(m->writes_completed, n + 16);
	IS(m->written_bytes, n + 17);
	IS(m->write_wait_ns, n + 18);
	IS(m->errors, n + 19);
}

MB_CHOOSE(c)
{
	struct mb_member m;

	IS(c->abi, 1);
	IS(c->nr, 2);
	IS(c->now_ns, 101);
	IS(c->offset, 102);
	IS(c->length, 103);
	IS(c->stream, 104);
	IS(c->cpu, 105);
	IS(c->flags, MB_BACKGROUND);
	IS(c->copies, 3);
	IS(c->members, 2);
	IS(c->reserved, 0);
	for (u32 i = 0; i < 2; i++) {
		IS(c->mirror[i].offset, 200 + i);
		IS(c->mirror[i].copy, 1 + i);
		IS(c->mirror[i].reserved, 0);
		check_member(&c->mirror[i].m, 1 - i);
	}
	IS(mb_member(0, &m), 0);
	check_member(&m, 0);
	IS(mb_member(2, &m), ~0ull);
	IS(MB_VALUE(first), 9);
	IS(MB_VALUE(second), 10);
	mb_count(3, -4);
	mb_hedge(0, 77);
	return 1;
}

MB_SUBMIT(e)
{
	IS(e->now_ns, 301);
	IS(e->offset, 302);
	IS(e->length, 303);
	IS(e->wait_ns, 0);
	IS(e->stream, 304);
	IS(e->member, 1);
	IS(e->op, MB_DISCARD);
	IS(e->purpose, MB_METADATA);
	IS(e->result, MB_OK);
	IS(e->flags, MB_EVENT_BACKGROUND);
	IS(e->volume_offset, 305);
	IS(e->id, 306);
	mb_count(4, 1);
}

MB_COMPLETE(e)
{
	IS(e->now_ns, 401);
	IS(e->wait_ns, 402);
	IS(e->op, MB_READ);
	IS(e->purpose, MB_USER);
	IS(e->result, MB_CANCELLED);
	IS(e->flags, MB_EVENT_EXTRA | MB_EVENT_SUPERSEDED);
	mb_count(5, 1);
}

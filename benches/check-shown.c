/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program that checks what a kernel shows to programs, and reports a bug of its own, with the
 * number of the check in mb_fault, where that does not fit together: 1 a read that is submitted is
 * not the one for which a mirror was chosen; 2 a mirror's I/O in flight is not what was submitted
 * and has not completed.
 */
#include "mirrorball_policy.h"

MB_PROGRAM("check-shown", "1", "", "takes mirrors in turn and checks what it is shown");

/* The last choice for each stream, by the low bits of its number. */
static struct choice {
	u64 stream, offset, length, member_offset;
	u32 member, is_new;
} choices[64];
static s64 in_flight[64];
static u32 turn, differ;

MB_CHOOSE(c)
{
	struct choice *choice = &choices[c->stream & 63];
	u32 place = ++turn % c->nr & (MB_MIRRORS_MAX - 1);

	differ = 0;
	MB_EACH_MIRROR(c, i)
		differ |= in_flight[c->mirror[i].m.index & 63] != mb_in_flight(&c->mirror[i].m);
	if (differ)
		mb_error(2);
	choice->stream = c->stream;
	choice->offset = c->offset;
	choice->length = c->length;
	choice->member = c->mirror[place].m.index;
	choice->member_offset = c->mirror[place].offset;
	choice->is_new = 1;
	return place;
}

MB_SUBMIT(e)
{
	struct choice *choice = &choices[e->stream & 63];

	in_flight[e->member & 63]++;
	if (e->op != MB_READ || choice->stream != e->stream || !choice->is_new)
		return;
	choice->is_new = 0;
	if (choice->member != e->member || choice->length != e->length ||
	    choice->member_offset != e->offset ||
	    (e->purpose == MB_USER && choice->offset != e->volume_offset))
		mb_error(1);
}

MB_COMPLETE(e)
{
	in_flight[e->member & 63]--;
}

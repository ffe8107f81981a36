/*
 * Tests of NAME.c, compiled and run on this machine by `make test`.
 *
 * mb_context is what the policy is shown: fill it, ask, and say what you expect.
 * mirrorball_test.h has the helpers that the policy calls.
 */
#include "mirrorball_test.h"
#include "NAME.c"

/* Reports the end of a read to the policy. */
static void complete(u32 member, u64 wait_ns)
{
	struct mb_event e = { .op = MB_READ, .result = MB_OK, .length = 4096 };

	e.member = member;
	e.wait_ns = wait_ns;
	mb_op_complete(&e);
}

int main(void)
{
	/* Nothing is known of the members: the first mirror serves. */
	mb_test_mirrors(2);
	MB_EXPECT(mb_op_choose(&mb_context) == 0);

	/* The faster member serves, */
	complete(0, 8000000);
	complete(1, 100000);
	MB_EXPECT(mb_op_choose(&mb_context) == 1);

	/* unless its queue takes longer than a read of the slower one. */
	mb_context.mirror[1].m.reads_in_flight = 100;
	MB_EXPECT(mb_op_choose(&mb_context) == 0);

	return mb_test_end();
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * nvme queue-depth: the member with the fewest I/O in flight; of equals, the one of lowest index.
 *
 * The same as the built-in `nvme/queue-depth`, decision by decision.
 */
#include "mirrorball_policy.h"

MB_PROGRAM("nvme-queue-depth", "1", "nvme/queue-depth", "the fewest I/O in flight");

MB_CHOOSE(c)
{
	u64 fewest = ~0ull;
	u32 best = 0;

	MB_EACH_MIRROR(c, i) {
		/* The index stands below the number, so that it decides between equals. */
		u64 key = (u64)mb_in_flight(&c->mirror[i].m) << 32 | c->mirror[i].m.index;

		mb_note(i, key >> 32);
		if (key < fewest) {
			fewest = key;
			best = i;
		}
	}
	return best;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * btrfs/round-robin: mirrors take turns by the number of 4 KiB blocks read from the whole volume,
 * in the order of their devids.
 *
 * The same as the built-in `btrfs/round-robin`, decision by decision.
 */
#include "mirrorball_policy.h"

#define BLOCK_BYTES 4096

MB_PROGRAM("btrfs-round-robin", "1", "btrfs/round-robin", "turns by the number of blocks read");

MB_PARAM(blocks, 64, 1, 0xffffffff, "blocks of 4 KiB read from one mirror before the next");

/* Reads of any purpose; wraps, as the 32-bit counter of btrfs does. */
static u32 blocks_read;

/* Index of the mirror whose devid is the rank-th; 0, the lowest live stripe, if there is none. */
static u32 nth_by_devid(const struct mb_choose *c, u32 rank)
{
	MB_EACH_MIRROR(c, i) {
		u32 before = 0;

		MB_EACH_MIRROR(c, j)
			before += c->mirror[j].m.devid < c->mirror[i].m.devid;
		if (before == rank)
			return i;
	}
	return 0;
}

MB_CHOOSE(c)
{
	return nth_by_devid(c, mb_mod(blocks_read / (u32)MB_VALUE(blocks), c->copies));
}

MB_SUBMIT(e)
{
	if (e->op == MB_READ)
		blocks_read += e->length / BLOCK_BYTES;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * btrfs/pid: the reader's process id modulo the number of copies selects the stripe.
 *
 * If that stripe cannot be read, the lowest live stripe serves. The same as the built-in
 * `btrfs/pid`, decision by decision.
 */
#include "mirrorball_policy.h"

MB_PROGRAM("btrfs-pid", "1", "btrfs/pid", "the process id modulo the number of copies");

MB_CHOOSE(c)
{
	u32 preferred = mb_mod(c->stream, c->copies);

	MB_EACH_MIRROR(c, i)
		if (c->mirror[i].copy == preferred)
			return i;
	return 0;
}

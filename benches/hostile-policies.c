/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs that a kernel must refuse or survive: read-policy-in-qemu.sh compiles one for each
 * number HOSTILE.
 */
#include "mirrorball_policy.h"


MB_PROGRAM("hostile", "1", "", "what a kernel must refuse or survive");

static volatile u64 state;

#if HOSTILE == 5
/* A hash map of four places, in the form of libbpf. */
struct {
	u32 (*type)[1], (*max_entries)[4];
	u64 *key, *value;
} full_map MB_SECTION(".maps");
#elif HOSTILE == 6
static u8 huge[0x7ffffff0];
#elif HOSTILE == 8
struct bpf_iter_num {
	u64 opaque;
};
MB_KFUNC s32 bpf_iter_num_new(struct bpf_iter_num *it, s32 start, s32 end);
MB_KFUNC s32 *bpf_iter_num_next(struct bpf_iter_num *it);
MB_KFUNC void bpf_iter_num_destroy(struct bpf_iter_num *it);
#elif HOSTILE == 18
struct {
	u32 (*type)[33], (*map_flags)[1024], (*max_entries)[400000];
} arena MB_SECTION(".maps");
#endif

#define TEN(x) x x x x x x x x x x
#if HOSTILE == 15
MB_ALONE u64 calls0(void)
{
	return state++;
}

#define CALLS(name, callee)                                                                        \
	MB_ALONE u64 name(void)                                                                    \
	{                                                                                          \
		u64 sum = 0;                                                                       \
		TEN(sum += callee();)                                                              \
		return sum;                                                                        \
	}
CALLS(calls1, calls0)
CALLS(calls2, calls1)
CALLS(calls3, calls2)
CALLS(calls4, calls3)
CALLS(calls5, calls4)
CALLS(calls6, calls5)
#elif HOSTILE == 17
MB_ALONE u64 divides(void)
{
	struct bpf_iter_read_policy it;
	u64 sum = 0;

	bpf_iter_read_policy_new(&it, 0);
	asm volatile("r6 = %[it]; r7 = 0;"
		     TEN("r1 = r6; call %[next];"
			 ".rept 4000; r7 /= 3; .endr; if r0 == 0 goto +0;")
		     "%[sum] = r7"
		     : [sum] "=r"(sum) : [it] "r"(&it), [next] "i"(bpf_iter_read_policy_next)
		     : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "memory");
	bpf_iter_read_policy_destroy(&it);
	return sum;
}
#endif

MB_CHOOSE(c)
{
#if HOSTILE == 0 /* Does not end. */
	while (1)
		state++;
#elif HOSTILE == 1 /* Takes more turns than a call has. */
	MB_TURNS(i, 1 << 30)
		state++;
#elif HOSTILE == 2 /* Returns any number. */
	return mb_random();
#elif HOSTILE == 3 /* Wants the first copy, also when its member has failed. */
	MB_EACH_MIRROR(c, i)
		if (c->mirror[i].copy == 0)
			return i;
	return MB_MIRRORS_MAX;
#elif HOSTILE == 4 /* Always takes the last mirror, which is the slow one. */
	return c->nr - 1;
#elif HOSTILE == 5 /* Calls a helper, which may take long. */
	s64 (*update)(void *, const void *, const void *, u64) = (void *)2;
	u64 key = c->now_ns;

	return update(&full_map, &key, &key, 0) ? -1 : 0;
#elif HOSTILE == 6 /* Has a state of 2 GiB. */
	return huge[c->now_ns % sizeof(huge)]++ & 1;
#elif HOSTILE == 7 /* Asks for the time, with a helper. */
	u64 (*clock)(void) = (void *)5;

	return clock() & 1;
#elif HOSTILE == 8 /* Loops with an iterator of vmlinux, which has no limit of time. */
	struct bpf_iter_num it;

	bpf_iter_num_new(&it, 0, 1 << 23);
	while (bpf_iter_num_next(&it))
		state++;
	bpf_iter_num_destroy(&it);
#elif HOSTILE == 9 /* Changes what it is shown. */
	((struct mb_choose *)c)->mirror[0].m.reads_in_flight = 0;
#elif HOSTILE == 10 /* Finds a bug of its own. */
	mb_error(7);
#elif HOSTILE == 11 /* Takes long for each read, with fewer turns than a call has. */
	MB_TURNS(i, 60000)
		state++;
#elif HOSTILE == 12 /* Looks at a mirror that is outside of the context. */
	return c->mirror[mb_random()].m.index;
#elif HOSTILE == 13 /* Loops with may_goto, which has no limit of turns. */
	while (1) {
		asm volatile goto("1: .byte 0xe5; .byte 0; .long ((%l[end] - 1b - 8) / 8) & 0xffff;"
				  ".short 0" : : : : end);
		state++;
	}
end:
#elif HOSTILE == 14 /* Takes long in each turn, in a bounded loop that the verifier walks. */
	MB_TURNS(i, 60000)
#pragma clang loop unroll(disable)
		for (u32 k = 0; k < 40000; k++)
			state += k;
#elif HOSTILE == 15 /* Calls a function a million times, without a loop. */
	return calls6();
#elif HOSTILE == 16 /* Takes long for each turn, with few turns. */
	MB_TURNS(i, 60000) {
		TEN(TEN(TEN(state++;)))
	}
#elif HOSTILE == 17 /* Divides 40,000 times between a call of next and its branch. */
	MB_TURNS(i, 15)
		state += divides();
#elif HOSTILE == 18 /* Reads pages of an arena that are not there. */
	u64 page = 4096;

	/* r1 = addr_space_cast(page, 0, 1) */
	asm volatile("r1 = %[arena] ll; r1 = %[page]; .byte 0xbf; .byte 0x11; .short 1; .long 1;"
		     "%[page] = *(u64 *)(r1 + 0)"
		     : [page] "+r"(page) : [arena] "i"(&arena) : "r1");
	return page;
#endif
	return 0;
}

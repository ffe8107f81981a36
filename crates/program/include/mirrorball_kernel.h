/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Policy programs as BPF objects: what mirrorball_policy.h includes with -DMB_KERNEL.
 *
 *	clang --target=bpf -mcpu=v3 -O2 -g -DMB_KERNEL -c policy.c -o policy.bpf.o
 *
 * No kernel has the hook yet; docs/policies.md describes it. Until then the operations
 * are programs of the type `syscall`, and contexts are in variables: so the verifier of any kernel
 * since 5.14 can check a policy, and a test can run it. A kernel with the hook passes the context
 * as an argument, and only this file changes.
 *
 * There are no floating-point numbers in BPF, and no signed division.
 */
#ifndef MIRRORBALL_KERNEL_H
#define MIRRORBALL_KERNEL_H

#define MB_SECTION(name) __attribute__((section(name), used))
#define MB_INLINE static inline __attribute__((always_inline))
#define MB_MEMBERS_MAX 64

char mb_license[] MB_SECTION("license") = "Dual MIT/GPL";

/* What the helpers ask for. */
enum mb_wish_kind { MB_WISH_NOTHING = 0, MB_WISH_HEDGE = 1, MB_WISH_SPLIT = 2, MB_WISH_ALL = 3 };

struct mb_wish {
	u32 kind;
	u32 mirrors;		/* the backup of a hedge, or the set as bits */
	u64 after_ns;
};

MB_EXPORT struct mb_wish mb_wish;
MB_EXPORT s64 mb_counters[16];
MB_EXPORT struct mb_member mb_members[MB_MEMBERS_MAX];
MB_EXPORT u32 mb_members_nr;
MB_EXPORT u32 mb_fault;
extern struct mb_choose mb_context;

#ifdef MB_UNROLL
/*
 * With -DMB_UNROLL loops are unrolled: PREVAIL, which proves that a policy uses no place outside of
 * its variables and that it ends, cannot follow an index through the turns of a loop, and knows no
 * iterators.
 */
#define MB_EACH(i, count, most)                                                                    \
	_Pragma("clang loop unroll(full)") for (u32 i = 0; i < (most); i++) if (i < (count))
#else
/*
 * Loops over an iterator of the kernel (since 6.4): the verifier looks at their body a few times
 * only, whatever the number of turns.
 */
struct bpf_iter_num {
	u64 opaque[1];
} __attribute__((aligned(8)));

#define MB_KFUNC extern __attribute__((section(".ksyms"), weak))
MB_KFUNC s32 bpf_iter_num_new(struct bpf_iter_num *it, s32 start, s32 end);
MB_KFUNC s32 *bpf_iter_num_next(struct bpf_iter_num *it);
MB_KFUNC void bpf_iter_num_destroy(struct bpf_iter_num *it);

#define MB_EACH(i, count, most)                                                                    \
	for (u32 i = 0, i##_once = 1; i##_once; i##_once = 0)                                      \
		for (struct bpf_iter_num i##_it                                                    \
			     __attribute__((cleanup(bpf_iter_num_destroy))),                       \
			     *i##_p = (bpf_iter_num_new(&i##_it, 0, (count)),                      \
				       /* Named here, because clang describes only what is used. */\
				       (void)bpf_iter_num_destroy, &i##_it);                       \
		     ({                                                                            \
			     s32 *i##_n = bpf_iter_num_next(i##_p);                                \
			     i##_n && (i = *i##_n) < (most);                                       \
		     });)
#endif

/* An operation: a program, and the function whose body follows. */
#define MB_CHOOSE(c)                                                                               \
	MB_INLINE s64 mb_op_choose(const struct mb_choose *c);                                     \
	MB_SECTION("syscall") s64 choose(void *ctx)                                         \
	{                                                                                          \
		(void)ctx;                                                                         \
		mb_wish.kind = MB_WISH_NOTHING;                                                    \
		return mb_op_choose(&mb_context);                                                  \
	}                                                                                          \
	MB_INLINE s64 mb_op_choose(__attribute__((unused)) const struct mb_choose *c)
#define MB_EVENT_OP(name, e)                                                                       \
	MB_INLINE void mb_op_##name(const struct mb_event *e);                                     \
	MB_SECTION("syscall") s64 name(void *ctx)                                           \
	{                                                                                          \
		(void)ctx;                                                                         \
		mb_op_##name((const struct mb_event *)&mb_context);                                \
		return 0;                                                                          \
	}                                                                                          \
	MB_INLINE void mb_op_##name(__attribute__((unused)) const struct mb_event *e)
#define MB_SUBMIT(e) MB_EVENT_OP(submit, e)
#define MB_COMPLETE(e) MB_EVENT_OP(complete, e)
#define MB_MEMBERS_OP(name)                                                                        \
	MB_INLINE void mb_op_##name(void);                                                         \
	MB_SECTION("syscall") s64 name(void *ctx)                                           \
	{                                                                                          \
		(void)ctx;                                                                         \
		mb_op_##name();                                                                    \
		return 0;                                                                          \
	}                                                                                          \
	MB_INLINE void mb_op_##name(void)
#define MB_INIT() MB_MEMBERS_OP(init)
#define MB_CHANGE() MB_MEMBERS_OP(change)

/* bpf_get_prandom_u32 is helper 7. */
MB_INLINE u64 mb_random(void)
{
	u32 (*prandom)(void) = (u32 (*)(void))7;
	u64 high = prandom();

	return high << 32 | prandom();
}

MB_INLINE s64 mb_member(u32 index, struct mb_member *out)
{
	if (index >= mb_members_nr || index >= MB_MEMBERS_MAX)
		return -1;
	*out = mb_members[index];
	return 0;
}

MB_INLINE void mb_hedge(u32 backup, u64 after_ns)
{
	mb_wish = (struct mb_wish){ MB_WISH_HEDGE, backup, after_ns };
}

MB_INLINE void mb_split(u32 mask)
{
	mb_wish = (struct mb_wish){ MB_WISH_SPLIT, mask, 0 };
}

MB_INLINE void mb_read_all(u32 mask)
{
	mb_wish = (struct mb_wish){ MB_WISH_ALL, mask, 0 };
}

MB_INLINE void mb_count(u32 id, s64 n)
{
	mb_counters[id & 15] += n;
}

MB_INLINE void mb_note(u32 index, s64 score)
{
	(void)index;
	(void)score;
}

/* Ends the program: exit leaves the operation, because all functions are part of it. */
MB_INLINE __attribute__((noreturn)) void mb_error(u32 code)
{
	mb_fault = code;
	asm volatile("r0 = -1\n exit");
	__builtin_unreachable();
}

#endif /* MIRRORBALL_KERNEL_H */

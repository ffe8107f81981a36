/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Policy programs as BPF objects: what mirrorball_policy.h includes with -DMB_KERNEL.
 *
 *	clang --target=bpf -mcpu=v3 -O2 -g -DMB_KERNEL -c policy.c -o policy.bpf.o
 *
 * The object is a struct_ops `read_policy_ops` for a kernel with the modules of kernel/. An
 * operation asks the kernel for its context, so that it can use an index that varies. With
 * -DMB_UNROLL the operations are programs of the type `syscall`, contexts are in variables, and
 * loops are unrolled: so PREVAIL, which knows neither struct_ops nor iterators, can prove them.
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
MB_EXPORT u32 mb_fault;

#ifdef MB_UNROLL
MB_EXPORT struct mb_member mb_members[MB_MEMBERS_MAX];
MB_EXPORT u32 mb_members_nr;
extern struct mb_choose mb_context;

#define MB_EACH(i, count, most)                                                                    \
	_Pragma("clang loop unroll(full)") for (u32 i = 0; i < (most); i++) if (i < (count))
#define MB_TURNS(i, most) for (u32 i = 0; i < (most); i++)
#define MB_ALONE static
#define MB_PART(type, name, c) static type name(const struct mb_choose *c)
#define MB_PART_OF(type, name, c, arg) static type name(const struct mb_choose *c, u32 arg)
#define MB_ENTRY(name) MB_SECTION("syscall") s64 name(void *ctx)
#define MB_CONTEXT(type) ((const struct type *)&mb_context)
#define MB_TABLE(name, version) MB_EXPORT struct mb_choose mb_context
#define MB_NO_MORE_OPERATIONS() do {} while (0)
#define MB_HAS(slot, name) MB_SECTION("syscall") s64 name(void *ctx)
#else
/* A kernel reads one mirror: mb_hedge, mb_split and mb_read_all have no effect. */
#define MB_ONE_MIRROR

#define MB_KFUNC extern __attribute__((section(".ksyms")))
MB_KFUNC const u8 *bpf_read_policy_context(u64 rdonly_buf_size);
MB_KFUNC const u8 *bpf_read_policy_member(u32 index, u64 rdonly_buf_size);
MB_KFUNC u64 bpf_read_policy_random(void);
MB_KFUNC void bpf_read_policy_error(void);

/*
 * Loops over an iterator of the kernel: the verifier looks at their body a few times only, whatever
 * the number of turns.
 */
struct bpf_iter_read_policy {
	s32 next, end;
} __attribute__((aligned(8)));

MB_KFUNC s32 bpf_iter_read_policy_new(struct bpf_iter_read_policy *it, s32 end);
MB_KFUNC s32 *bpf_iter_read_policy_next(struct bpf_iter_read_policy *it);
MB_KFUNC void bpf_iter_read_policy_destroy(struct bpf_iter_read_policy *it);

/* Has the compiler compute from this variable, whose limits the verifier knows, and no copy. */
#define MB_BOUNDED(i) asm volatile("" : "+r"(i))

#define MB_EACH(i, count, most)                                                                    \
	for (u32 i = 0, i##_once = 1; i##_once; i##_once = 0)                                      \
		for (struct bpf_iter_read_policy i##_it                                            \
			     __attribute__((cleanup(bpf_iter_read_policy_destroy))),               \
			     *i##_p = (bpf_iter_read_policy_new(&i##_it, (count)),                 \
				       /* Named here, because clang describes only what is used. */\
				       (void)bpf_iter_read_policy_destroy, &i##_it);               \
		     ({                                                                            \
			     s32 *i##_n = bpf_iter_read_policy_next(i##_p);                        \
			     u32 i##_goes_on = i##_n && (i = *i##_n) < (most);                     \
			     if (i##_goes_on)                                                      \
				     MB_BOUNDED(i);                                                \
			     i##_goes_on;                                                          \
		     });)

#define MB_TURNS(i, most) MB_EACH(i, most, most)

#define MB_CONTEXT(type) ((const struct type *)bpf_read_policy_context(sizeof(struct type)))

/* Global functions, which ask for the context themselves. */
#define MB_ALONE __attribute__((noinline))
#define MB_PART(type, name, c)                                                                     \
	MB_INLINE type mb_part_##name(const struct mb_choose *c);                                  \
	MB_ALONE type mb_alone_##name(void)                                                        \
	{                                                                                          \
		const struct mb_choose *shown = MB_CONTEXT(mb_choose);                             \
		return shown ? mb_part_##name(shown) : 0;                                          \
	}                                                                                          \
	MB_INLINE type name(__attribute__((unused)) const struct mb_choose *c)                     \
	{                                                                                          \
		return mb_alone_##name();                                                          \
	}                                                                                          \
	MB_INLINE type mb_part_##name(const struct mb_choose *c)
#define MB_PART_OF(type, name, c, arg)                                                             \
	MB_INLINE type mb_part_##name(const struct mb_choose *c, u32 arg);                         \
	MB_ALONE type mb_alone_##name(u32 arg)                                                     \
	{                                                                                          \
		const struct mb_choose *shown = MB_CONTEXT(mb_choose);                             \
		return shown ? mb_part_##name(shown, arg) : 0;                                     \
	}                                                                                          \
	MB_INLINE type name(__attribute__((unused)) const struct mb_choose *c, u32 arg)            \
	{                                                                                          \
		return mb_alone_##name(arg);                                                       \
	}                                                                                          \
	MB_INLINE type mb_part_##name(const struct mb_choose *c, u32 arg)

/* As in read_policy.h of the kernel; the loader compares names and types. */
struct read_policy_ops {
	s64 (*choose)(void);
	void (*submit)(void);
	void (*complete)(void);
	void (*init)(void);
	void (*exit)(void);
	void (*members_changed)(void);
	char name[32];
	char version[16];
};

/*
 * The table of operations comes first in a policy, and the operations that it has follow. A slot
 * is a symbol of the assembler, which MB_HAS sets; in `choose`, which is assembled after all of
 * them, MB_NO_MORE_OPERATIONS sets those that are left to 0.
 */
#define MB_SLOT(slot) extern __attribute__((nodebug)) u8 mb_slot_##slot[] __asm__(".Lmb_" #slot)
#define MB_NONE(slot) ".ifndef .Lmb_has_" #slot "\n.set .Lmb_" #slot ", 0\n.endif\n"
#define MB_NO_MORE_OPERATIONS()                                                                    \
	asm volatile(MB_NONE(submit) MB_NONE(complete) MB_NONE(init) MB_NONE(exit)                 \
			     MB_NONE(members_changed))
#define MB_HAS(slot, name)                                                                         \
	asm(".set .Lmb_has_" #slot ", 1\n.set .Lmb_" #slot ", " #name);                            \
	MB_ENTRY(name)
#define MB_ENTRY(name) MB_SECTION("struct_ops/" #name) s64 name(void *ctx)
#define MB_TABLE(name, version)                                                                    \
	MB_SLOT(submit); MB_SLOT(complete); MB_SLOT(init); MB_SLOT(exit);                          \
	MB_SLOT(members_changed);                                                                  \
	s64 choose(void *ctx);                                                                     \
	struct read_policy_ops mb_ops MB_SECTION(".struct_ops.link") = {                           \
		(void *)choose, (void *)mb_slot_submit, (void *)mb_slot_complete,                  \
		(void *)mb_slot_init, (void *)mb_slot_exit, (void *)mb_slot_members_changed,       \
		name, version }
#endif

/* An operation: a program, and the function whose body follows. */
#define MB_CHOOSE(c)                                                                               \
	MB_INLINE s64 mb_op_choose(const struct mb_choose *c);                                     \
	MB_ENTRY(choose)                                                                           \
	{                                                                                          \
		const struct mb_choose *shown = MB_CONTEXT(mb_choose);                             \
		(void)ctx;                                                                         \
		MB_NO_MORE_OPERATIONS();                                                           \
		mb_wish.kind = MB_WISH_NOTHING;                                                    \
		return shown ? mb_op_choose(shown) : -1;                                           \
	}                                                                                          \
	MB_INLINE s64 mb_op_choose(__attribute__((unused)) const struct mb_choose *c)
#define MB_EVENT_OP(name, e)                                                                       \
	MB_INLINE void mb_op_##name(const struct mb_event *e);                                     \
	MB_HAS(name, name)                                                                         \
	{                                                                                          \
		const struct mb_event *shown = MB_CONTEXT(mb_event);                               \
		(void)ctx;                                                                         \
		if (shown)                                                                         \
			mb_op_##name(shown);                                                       \
		return 0;                                                                          \
	}                                                                                          \
	MB_INLINE void mb_op_##name(__attribute__((unused)) const struct mb_event *e)
#define MB_SUBMIT(e) MB_EVENT_OP(submit, e)
#define MB_COMPLETE(e) MB_EVENT_OP(complete, e)
#define MB_MEMBERS_OP(slot, name)                                                                  \
	MB_INLINE void mb_op_##name(void);                                                         \
	MB_HAS(slot, name)                                                                         \
	{                                                                                          \
		(void)ctx;                                                                         \
		mb_op_##name();                                                                    \
		return 0;                                                                          \
	}                                                                                          \
	MB_INLINE void mb_op_##name(void)
#define MB_INIT() MB_MEMBERS_OP(init, init)
#define MB_CHANGE() MB_MEMBERS_OP(members_changed, change)

#ifdef MB_UNROLL
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
#else
MB_INLINE u64 mb_random(void)
{
	return bpf_read_policy_random();
}

MB_INLINE s64 mb_member(u32 index, struct mb_member *out)
{
	const u8 *member = bpf_read_policy_member(index, sizeof(*out));

	if (!member)
		return -1;
	*out = *(const struct mb_member *)member;
	return 0;
}
#endif

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
#ifndef MB_UNROLL
	bpf_read_policy_error();
#endif
	asm volatile("r0 = -1\n exit");
	__builtin_unreachable();
}

#endif /* MIRRORBALL_KERNEL_H */

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mirrorball policy programs, interface version 1.
 *
 * A policy decides which mirror of a volume serves a read. This header is all that a policy in C
 * needs: it includes nothing. With -DMB_KERNEL it includes mirrorball_kernel.h and makes BPF objects;
 * with mirrorball_test.h a policy is tested on the machine of its developer.
 * Compile the policy with `mirrorball program build policy.c`, or with
 *
 *	clang --target=wasm32 -mcpu=mvp -O2 -nostdlib -ffreestanding -c policy.c
 *	wasm-ld --no-entry --export-dynamic --allow-undefined --stack-first \
 *		-z stack-size=8192 policy.o -o policy.wasm
 *
 * The smallest complete policy:
 *
 *	#include "mirrorball_policy.h"
 *
 *	MB_PROGRAM("shortest-queue", "1", "", "takes the mirror with the least I/O in flight");
 *
 *	MB_CHOOSE(c)
 *	{
 *		u32 best = 0;
 *
 *		MB_EACH_MIRROR(c, i)
 *			if (mb_in_flight(&c->mirror[i].m) < mb_in_flight(&c->mirror[best].m))
 *				best = i;
 *		return best;
 *	}
 *
 * Rules. All numbers are little endian and of fixed width; there are no pointers in the contexts.
 * Times are in nanoseconds, sizes and offsets in bytes. Structures may grow at their end in later
 * versions; `reserved` fields are zero. Static and global variables are the state of the policy:
 * each volume has its own copy, which starts as compiled. A policy has no clock but `now_ns`, no
 * chance but mb_random(), no memory but its variables (256 KiB with the stack), and a limit of
 * instructions for each call.
 */
#ifndef MIRRORBALL_POLICY_H
#define MIRRORBALL_POLICY_H

#define MB_ABI 1
#define MB_MIRRORS_MAX 16

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;

/* Flags of a member. */
#define MB_ROTATIONAL 1u	/* the kernel reports the device as rotational */
#define MB_WRITE_MOSTLY 2u	/* read only when no other mirror can serve */
#define MB_REBUILDING 4u	/* in sync in part */
#define MB_FAILED 8u		/* missing or failed: neither read nor written */

/*
 * A member and its statistics (144 bytes). Counters run from the start of the volume and are never
 * reset: a policy that needs a window keeps a copy and subtracts.
 */
struct mb_member {
	u32 index;		/* of the member in the array: 0, 1, ... */
	u32 flags;		/* MB_ROTATIONAL, ... */
	u64 devid;		/* as in btrfs: 1, 2, ... */
	u64 size_bytes;		/* capacity */
	u64 optimal_io_bytes;	/* io_opt of the device, or 0 if it reports none */
	u32 queue_depth;	/* of the device, as the kernel knows it */
	u32 priority;		/* a policy that uses priorities prefers the higher */
	u32 reads_in_flight;	/* submitted and not completed, of any purpose */
	u32 writes_in_flight;	/* writes, flushes and discards */
	u64 bytes_in_flight;	/* of all I/O in flight */
	u64 submitted_end;	/* end offset of the last I/O submitted */
	u64 completed_end;	/* end offset of the last I/O completed */
	u64 submitted_at_ns;	/* when the last I/O was submitted */
	u64 last_wait_ns;	/* wait of the last I/O completed; 0 before the first */
	u64 reads_completed;	/* successfully */
	u64 read_bytes;		/* their bytes */
	u64 read_wait_ns;	/* sum of their waits: completion minus submission */
	u64 writes_completed;	/* successfully */
	u64 written_bytes;	/* their bytes */
	u64 write_wait_ns;	/* sum of their waits */
	u64 errors;		/* I/O of any kind that failed */
};

/* One of the copies of a block (160 bytes). */
struct mb_mirror {
	u64 offset;		/* first byte of the read on the member */
	u32 copy;		/* index among all copies of the block, eligible or not */
	u32 reserved;
	struct mb_member m;	/* the member that holds the copy */
};

/* Flags of a read. */
#define MB_BACKGROUND 1u	/* scrub, rebuild, defragmentation */
#define MB_COPIES_APART 2u	/* the layout places copies at different offsets by design */
#define MB_EXPLAINED 4u		/* the choice is not made but shown: mb_note has an effect */

/* A read for which a mirror is chosen (64 bytes and the mirrors). Read only. */
struct mb_choose {
	u32 abi;		/* MB_ABI of the host */
	u32 nr;			/* number of mirrors: at least 2, all eligible */
	u64 now_ns;		/* time on the clock of the volume */
	u64 offset;		/* first byte on the volume */
	u64 length;		/* bytes */
	u64 stream;		/* in a kernel, the process id of the reader */
	u32 cpu;		/* on which the request was made */
	u32 flags;		/* MB_BACKGROUND, ... */
	u32 copies;		/* copies of the block, eligible or not */
	u32 members;		/* members of the array */
	u64 reserved;
	struct mb_mirror mirror[MB_MIRRORS_MAX]; /* in the order of the chunk's stripes */
};

enum mb_io { MB_READ = 0, MB_WRITE = 1, MB_FLUSH = 2, MB_DISCARD = 3 };
enum mb_purpose { MB_USER = 0, MB_REPAIR = 1, MB_SCRUB = 2, MB_REBUILD = 3, MB_METADATA = 4 };
enum mb_result { MB_OK = 0, MB_MEDIUM = 1, MB_TRANSPORT = 2, MB_GONE = 3, MB_CANCELLED = 4 };

/* Flags of an event. */
#define MB_EVENT_BACKGROUND 1u
#define MB_EVENT_EXTRA 2u	/* a further read of data whose first read is in flight */
#define MB_EVENT_SUPERSEDED 4u	/* another mirror answered first */

/* An I/O that was submitted to a member, or completed (64 bytes). Read only. */
struct mb_event {
	u64 now_ns;		/* time on the clock of the volume */
	u64 offset;		/* first byte on the member */
	u64 length;		/* bytes; 0 for a flush */
	u64 wait_ns;		/* completion minus submission; 0 for a submission */
	u64 stream;		/* of the request */
	u32 member;		/* index of the member */
	u8 op;			/* enum mb_io */
	u8 purpose;		/* enum mb_purpose */
	u8 result;		/* enum mb_result; MB_OK for a submission */
	u8 flags;		/* MB_EVENT_EXTRA, ... */
	u64 volume_offset;	/* first byte on the volume */
	u64 id;			/* names the I/O: unique among those in flight */
};

/* What a policy is (256 bytes). Texts end with a zero byte. */
struct mb_program {
	u32 abi;
	u32 reserved;
	char name[32];		/* a-z, 0-9, - and _ */
	char version[16];	/* free text */
	char fallback[72];	/* policy that decides after a fault; "" for the least in flight */
	char summary[128];	/* what the policy does, in one line */
};

/* A number that the user may set: --policy 'program:p.wasm?gain=4' (128 bytes). */
struct mb_param {
	u64 value;		/* the default, until the user sets another */
	u64 min;
	u64 max;
	char meaning[104];	/* effect and unit, as a noun phrase */
};

#ifdef MB_KERNEL
#define MB_EXPORT __attribute__((used))
#elif defined(MB_TEST)
#define MB_EXPORT
#define MB_OP(name)
#define MB_HELPER(name)
#else
#define MB_EXPORT __attribute__((used, visibility("default")))
#define MB_OP(name) __attribute__((used, visibility("default"), export_name(#name)))
#define MB_HELPER(name) __attribute__((import_module("mb"), import_name(#name)))
#endif

/* Declares the policy; once in the file, at file level. */
#define MB_PROGRAM(name, version, fallback, summary)                                              \
	MB_EXPORT const volatile struct mb_program mb_program = { MB_ABI, 0, name, version,        \
								  fallback, summary };             \
	MB_TABLE(name, version)

/* Declares a parameter: MB_PARAM(gain, 8, 1, 64, "weight of the queue, in eighths"). */
#define MB_PARAM(name, value, min, max, meaning)                                                  \
	MB_EXPORT const volatile struct mb_param mb_param_##name = { value, min, max, meaning }
/* Its value. */
#define MB_VALUE(name) (mb_param_##name.value)

/*
 * Operations. Only MB_CHOOSE is required; one that is left out costs nothing.
 *
 * MB_CHOOSE(c): returns the index of the mirror that serves the read, less than c->nr.
 * MB_SUBMIT(e): an I/O was handed to its member. Also called for writes, and for reads that were
 *	not chosen (scrub, the only mirror left).
 * MB_COMPLETE(e): an I/O ended whose submission was reported.
 * MB_INIT(): the volume starts, or the policy is put into a running volume.
 * MB_CHANGE(): a member changed its state.
 */
/*
 * MB_EACH(i, count, most) { ... }: runs for each i from 0 that is less than `count` and less than
 * the constant `most`. With it in place of `for`, a verifier of BPF programs can follow the loop.
 * MB_EACH_MIRROR(c, i) { ... }: runs for each mirror of a read, with its index in i.
 * MB_TURNS(i, most) { ... }: runs `most` times, or until a break; i is no index.
 *
 * A verifier looks at a function again for every call, so a large policy is divided into functions
 * that it checks once, whatever their arguments are; they return a number.
 * MB_PART(type, name, c) { ... }: such a function of a read: name(c).
 * MB_PART_OF(type, name, c, n) { ... }: one with a number besides: name(c, n).
 * MB_ALONE in place of `static`: a function of numbers only.
 *
 * MB_ONE_MIRROR is defined where each read goes to one mirror, as in a kernel. Define it to have
 * the policy decide as there.
 */

#ifdef MB_KERNEL
#include "mirrorball_kernel.h"
#else
#define MB_TABLE(name, version) MB_EXPORT struct mb_choose mb_context
#define MB_EACH(i, count, most) for (u32 i = 0; i < (count) && i < (most); i++)
#define MB_TURNS(i, most) for (u32 i = 0; i < (most); i++)
#define MB_ALONE static
#define MB_PART(type, name, c) static type name(const struct mb_choose *c)
#define MB_PART_OF(type, name, c, arg) static type name(const struct mb_choose *c, u32 arg)
/* A policy need not look at what it is shown, and its source does not show the argument. */
#define MB_SHOWN __attribute__((unused)) const
#define MB_CHOOSE(c) MB_OP(choose) s64 mb_op_choose(MB_SHOWN struct mb_choose *c)
#define MB_SUBMIT(e) MB_OP(submit) void mb_op_submit(MB_SHOWN struct mb_event *e)
#define MB_COMPLETE(e) MB_OP(complete) void mb_op_complete(MB_SHOWN struct mb_event *e)
#define MB_INIT() MB_OP(init) void mb_op_init(void)
#define MB_CHANGE() MB_OP(change) void mb_op_change(void)

/* 64 random bits from the volume's generator. In choose, submit and complete. */
MB_HELPER(random) u64 mb_random(void);
/* Fills `out` with the member of this index; returns -1 if there is none. Not in submit and
 * complete. */
MB_HELPER(member) s64 mb_member(u32 index, struct mb_member *out);
/* Reads from mirror `backup` as well, if the mirror that choose returns has not answered after
 * `after_ns`. The first good answer counts. In choose. */
MB_HELPER(hedge) void mb_hedge(u32 backup, u64 after_ns);
/* Cuts the read into a piece for each mirror whose bit is set. In choose, which then returns any
 * mirror of the set. */
MB_HELPER(split) void mb_split(u32 mask);
/* Reads from every mirror whose bit is set at once. The first good answer counts; the other reads
 * go on. In choose, which then returns any mirror of the set. Of mb_hedge, mb_split and mb_read_all
 * the last call counts. */
MB_HELPER(read_all) void mb_read_all(u32 mask);
/* Adds `n` to counter `id` (0 to 15), which `ctl stats` and results show as count_ID. */
MB_HELPER(count) void mb_count(u32 id, s64 n);
MB_HELPER(note) void mb_note_score(u32 index, s64 score);

extern struct mb_choose mb_context;

/* Gives mirror `index` a score, for `mirrorball explain`; the lowest is the best. In choose; does
 * nothing otherwise. The helper is called only while choices are explained, because a call takes
 * longer than most scores. */
static inline void mb_note(u32 index, s64 score)
{
	if (mb_context.flags & MB_EXPLAINED)
		mb_note_score(index, score);
}

/* Ends the policy with a fault: a bug of the policy was found. The fallback decides from now on,
 * and a simulation fails. */
MB_HELPER(error) __attribute__((noreturn)) void mb_error(u32 code);
#endif /* MB_KERNEL */

#define MB_EACH_MIRROR(c, i) MB_EACH(i, (c)->nr, MB_MIRRORS_MAX)

/* Number of I/Os in flight, of every kind. */
static inline u32 mb_in_flight(const struct mb_member *m)
{
	return m->reads_in_flight + m->writes_in_flight;
}

/* a / b, or 0 if b is 0: in WebAssembly a division by zero is a fault. */
static inline u64 mb_div(u64 a, u64 b)
{
	return b ? a / b : 0;
}

/* a % b, or 0 if b is 0. */
static inline u64 mb_mod(u64 a, u64 b)
{
	return b ? a % b : 0;
}

/* The logarithm of n to base 2, rounded down; 0 for 0. */
static inline u32 mb_log2(u64 n)
{
#ifdef MB_KERNEL
	/* BPF has no instruction that counts bits, and a verifier follows each way of a branch. */
	u32 log = 0;

	for (u32 step = 32; step; step /= 2) {
		u64 high = n >> step, is_set = high | (0 - high);

		asm volatile("" : "+r"(is_set));
		is_set >>= 63;
		n >>= is_set * step;
		log += is_set * step;
	}
	return log;
#else
	return 63 - __builtin_clzll(n | 1);
#endif
}

/*
 * A uniform number below `bound`, drawn as the built-in policies draw (Lemire's multiplication);
 * 0 if `bound` is 0. Draws again with a probability below bound / 2^64, four times at most.
 */
static inline u32 mb_random_below(u32 bound)
{
	u64 high = 0;

	for (u32 tries = 0; tries < 4; tries++) {
		u64 draw = mb_random();
		u64 low_part = (draw & 0xffffffff) * bound;
		u64 low;

		high = (draw >> 32) * bound + (low_part >> 32);
		low = (high << 32) | (low_part & 0xffffffff);
		if (low >= bound || low >= mb_mod(0 - (u64)bound, bound))
			break;
	}
	return high >> 32;
}

#if !defined(MB_KERNEL) && !defined(MB_TEST)
/*
 * The compiler may call these for copies and initial values of structures; they are left out of
 * the object where it does not.
 */
__attribute__((weak, visibility("hidden"), no_builtin)) void *memcpy(void *to, const void *from,
								      unsigned long bytes)
{
	for (unsigned long i = 0; i < bytes; i++)
		((u8 *)to)[i] = ((const u8 *)from)[i];
	return to;
}

__attribute__((weak, visibility("hidden"), no_builtin)) void *memset(void *to, int value,
								      unsigned long bytes)
{
	for (unsigned long i = 0; i < bytes; i++)
		((u8 *)to)[i] = value;
	return to;
}
#endif

#endif /* MIRRORBALL_POLICY_H */

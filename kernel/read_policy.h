/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Read policies of mirrored arrays as BPF programs.
 *
 * An array (md raid1, btrfs) asks read_policy_choose() which mirror serves a read, and reports
 * submitted and completed I/O. What a program is shown has the layout of mirrorball_policy.h,
 * version 1.
 */
#ifndef _LINUX_READ_POLICY_H
#define _LINUX_READ_POLICY_H

#include <linux/jump_label.h>
#include <linux/types.h>

#define READ_POLICY_ABI		1
#define READ_POLICY_MIRRORS	16
#define READ_POLICY_MEMBERS	64

/* Flags of a member, of a read, and kinds of I/O: as in mirrorball_policy.h. */
#define READ_POLICY_ROTATIONAL		1
#define READ_POLICY_WRITE_MOSTLY	2
#define READ_POLICY_REBUILDING		4
#define READ_POLICY_FAILED		8
#define READ_POLICY_BACKGROUND		1

enum { READ_POLICY_READ, READ_POLICY_WRITE };

struct block_device;
struct read_policy_array;

/* A member and its statistics; all fields as in mirrorball_policy.h, where they are documented. */
struct read_policy_member {
	u32 index, flags;
	u64 devid, size_bytes, optimal_io_bytes;
	u32 queue_depth, priority, reads_in_flight, writes_in_flight;
	u64 bytes_in_flight, submitted_end, completed_end, submitted_at_ns, last_wait_ns;
	u64 reads_completed, read_bytes, read_wait_ns;
	u64 writes_completed, written_bytes, write_wait_ns, errors;
};

/* A read for which a mirror is chosen. */
struct read_policy_read {
	u32 abi, nr;
	u64 now_ns, offset, length, stream;
	u32 cpu, flags, copies, members;
	u64 reserved;
	struct {
		u64 offset;
		u32 copy, reserved;
		struct read_policy_member m;
	} mirror[READ_POLICY_MIRRORS];
};

/* An I/O that was submitted to a member, or completed. */
struct read_policy_event {
	u64 now_ns, offset, length, wait_ns, stream;
	u32 member;
	u8 op, purpose, result, flags;
	u64 volume_offset, id;
};

/**
 * struct read_policy_ops - a policy as a BPF program (struct_ops)
 * @choose: returns the index of the mirror that serves a read
 * @submit: an I/O was handed to its member; optional, like all below
 * @complete: an I/O ended whose submission was reported
 * @init: the policy is put into an array
 * @exit: the policy is taken out of it
 * @members_changed: a member changed its state
 * @name: what is written to "policy"
 * @version: free text
 * @list: of the registered programs; the kernel's own, as is the last
 * @array: the array that uses it, or NULL
 *
 * Calls for one array never overlap. All run in atomic context. They ask kfuncs for what they are
 * shown: bpf_read_policy_context() and bpf_read_policy_member().
 */
struct read_policy_ops {
	s64 (*choose)(void);
	void (*submit)(void);
	void (*complete)(void);
	void (*init)(void);
	void (*exit)(void);
	void (*members_changed)(void);
	char name[32];
	char version[16];
	struct list_head list;
	struct read_policy_array *array;
};

/* What an array keeps for each I/O in flight: one record for all members of a write. */
struct read_policy_io {
	u64 at_ns, id;
	u64 members;		/* a bit for each that counted the I/O, until its end there */
	u32 epoch, serial, stream;
};

/* A read, as the array shows it to read_policy_choose(). */
struct read_policy_request {
	u64 offset, length;
	u32 flags, copies, nr;
	struct {
		u64 offset;
		u32 copy, member;
	} mirror[READ_POLICY_MIRRORS];
};

DECLARE_STATIC_KEY_FALSE(read_policy_used);

struct read_policy_array *read_policy_add(const char *name);
void read_policy_remove(struct read_policy_array *array);
void read_policy_show_member(struct read_policy_array *array, u32 index,
			     struct block_device *bdev, u32 flags);
int read_policy_choose(struct read_policy_array *array, const struct read_policy_request *request);
void read_policy_submit(struct read_policy_array *array, struct read_policy_io *io,
			const struct read_policy_event *shown);
void read_policy_complete(struct read_policy_array *array, struct read_policy_io *io,
			  const struct read_policy_event *shown);

/* True if the array has, or may have, a program. */
static inline bool read_policy_is_used(const struct read_policy_array *array)
{
	return static_branch_unlikely(&read_policy_used) && array;
}

#endif /* _LINUX_READ_POLICY_H */

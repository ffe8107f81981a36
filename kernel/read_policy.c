// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read policies of mirrored arrays as BPF programs: registration, calls, checks, fallback.
 *
 * A program is registered as a struct_ops and does nothing until its name is written to
 * /sys/kernel/read_policy/ARRAY/policy. One registration serves one array, because a program keeps
 * its state in its variables. The array's lock is held around every call, so a swap needs no more
 * than the lock, and a program has no concurrent calls. Whatever a program does, the array has its
 * built-in rule: for one read if an answer is wrong, and for good after a fault, a program that
 * takes too long, or one that starves readers.
 */
#include <linux/blkdev.h>
#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/ctype.h>
#include <linux/filter.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>
#include "read_policy.h"

#ifdef CONFIG_PREEMPT_RT
#error "Calls of programs need a spinlock that turns interrupts off"
#endif

static_assert(sizeof(struct read_policy_member) == 144);
static_assert(sizeof(struct read_policy_read) == 64 + READ_POLICY_MIRRORS * 160);
static_assert(sizeof(struct read_policy_event) == 64);

static unsigned int budget_ms = 100;
module_param(budget_ms, uint, 0644);
MODULE_PARM_DESC(budget_ms, "Milliseconds of each second that a program may run on an array");
static bool replay;
module_param(replay, bool, 0444);
MODULE_PARM_DESC(replay, "Make an array without disks to which recorded calls are written");
static unsigned int starving_ms = 500;
module_param(starving_ms, uint, 0644);
MODULE_PARM_DESC(starving_ms, "Wait after which reads starve while another mirror is idle");

/* Turns of all loops of one call. */
#define TURNS_MAX	65536
/* Instructions of a function, and all that it calls, while its loops get no turn. */
#define STRAIGHT_MAX	4096
/* Passes in which these are counted: one for each jump backward, or call of an earlier function. */
#define PASSES_MAX	64
/* Choices in a row that let reads starve, before the program is detached. */
#define STARVING_MAX	16

struct read_policy_array {
	struct kobject kobj;
	struct work_struct release;
	struct read_policy_ops *program;	/* under programs_lock */

	spinlock_t lock;			/* protects the following */
	struct read_policy_ops *ops;		/* NULL: the built-in rule */
	u32 epoch;				/* of counting I/O */
	u32 serial;				/* of programs */
	u64 ios;
	u32 members;
	u32 turns;
	u32 starving;
	u64 began_ns;				/* of this call */
	u64 window_at_ns, window_used_ns;
	u64 decisions, invalid, swaps, differences;
	const char *reason;			/* of the last detachment */
	bool is_faulty;				/* the program said so in this call */
	const u64 *draws, *draws_end;		/* recorded random numbers, while replayed */
	const void *context;
	size_t context_bytes;
	struct read_policy_read read;
	struct read_policy_event event;
	u64 progress_ns[READ_POLICY_MEMBERS];
	struct read_policy_member member[READ_POLICY_MEMBERS];
};

DEFINE_STATIC_KEY_FALSE(read_policy_used);
EXPORT_SYMBOL_GPL(read_policy_used);

static DEFINE_MUTEX(programs_lock);
static LIST_HEAD(programs);
static struct kobject *read_policy_kobj;
static struct bpf_struct_ops read_policy_struct_ops;

/* The array whose program runs on this CPU. Interrupts are off meanwhile. */
static DEFINE_PER_CPU(struct read_policy_array *, running);

static u64 budget_ns(void)
{
	return (u64)budget_ms * NSEC_PER_MSEC;
}

__bpf_kfunc_start_defs();

/* The read in choose, the event in submit and complete; NULL if this kernel shows fewer bytes. */
__bpf_kfunc const u8 *bpf_read_policy_context(size_t rdonly_buf_size)
{
	const struct read_policy_array *array = this_cpu_read(running);

	return array && rdonly_buf_size <= array->context_bytes ? array->context : NULL;
}

/* A member of the array, or NULL. */
__bpf_kfunc const u8 *bpf_read_policy_member(u32 index, size_t rdonly_buf_size)
{
	const struct read_policy_array *array = this_cpu_read(running);

	if (!array || index >= array->members || rdonly_buf_size > sizeof(array->member[0]))
		return NULL;
	return (const u8 *)&array->member[index];
}

/* 64 random bits; while reads are replayed, the next recorded ones as long as there are any. */
__bpf_kfunc u64 bpf_read_policy_random(void)
{
	struct read_policy_array *array = this_cpu_read(running);

	return array && array->draws < array->draws_end ? *array->draws++ : get_random_u64();
}

/* Detaches the program after this call: it found a bug of its own. */
__bpf_kfunc void bpf_read_policy_error(void)
{
	struct read_policy_array *array = this_cpu_read(running);

	if (array)
		array->is_faulty = true;
}

/* Numbers from 0. Unlike those of bpf_iter_num, the turns of all loops of a call have limits. */
struct bpf_iter_read_policy {
	int next, end;
} __aligned(8);

__bpf_kfunc int bpf_iter_read_policy_new(struct bpf_iter_read_policy *it, int end)
{
	it->next = -1;
	it->end = end;
	return 0;
}

__bpf_kfunc int *bpf_iter_read_policy_next(struct bpf_iter_read_policy *it)
{
	struct read_policy_array *array = this_cpu_read(running);

	if (++it->next >= it->end || !array || array->turns > TURNS_MAX)
		return NULL;
	if (!(++array->turns % 16) && ktime_get_ns() - array->began_ns > budget_ns())
		array->turns = TURNS_MAX + 1;
	return array->turns > TURNS_MAX ? NULL : &it->next;
}

__bpf_kfunc void bpf_iter_read_policy_destroy(struct bpf_iter_read_policy *it)
{
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(read_policy_kfuncs)
BTF_ID_FLAGS(func, bpf_read_policy_context, KF_RET_NULL)
BTF_ID_FLAGS(func, bpf_read_policy_member, KF_RET_NULL)
BTF_ID_FLAGS(func, bpf_read_policy_random)
BTF_ID_FLAGS(func, bpf_read_policy_error)
BTF_ID_FLAGS(func, bpf_iter_read_policy_new, KF_ITER_NEW)
BTF_ID_FLAGS(func, bpf_iter_read_policy_next, KF_ITER_NEXT | KF_RET_NULL)
BTF_ID_FLAGS(func, bpf_iter_read_policy_destroy, KF_ITER_DESTROY)
BTF_KFUNCS_END(read_policy_kfuncs)

static const struct btf_kfunc_id_set read_policy_kfunc_set = {
	.owner = THIS_MODULE,
	.set = &read_policy_kfuncs,
};

/* The built-in rule decides from now on; what sleeps is left to release_work(). */
static void detach(struct read_policy_array *array, const char *reason)
{
	pr_warn("read_policy: %s: %s detached: %s\n", kobject_name(&array->kobj),
		array->ops->name, reason);
	array->reason = reason;
	array->ops = NULL;
	schedule_work(&array->release);
}

/* Before and after each call of an operation, with the lock held and interrupts off. */
static void begin_call(struct read_policy_array *array, const void *context, size_t bytes,
		       u64 now_ns)
{
	array->began_ns = now_ns;
	array->context = context;
	array->context_bytes = bytes;
	array->turns = 0;
	array->is_faulty = false;
	this_cpu_write(running, array);
}

static void end_call(struct read_policy_array *array)
{
	this_cpu_write(running, NULL);
	if (array->began_ns - array->window_at_ns > NSEC_PER_SEC) {
		array->window_at_ns = array->began_ns;
		array->window_used_ns = 0;
	}
	array->window_used_ns += ktime_get_ns() - array->began_ns;
	if (unlikely(array->is_faulty))
		detach(array, "it reported a bug of its own");
	else if (unlikely(array->window_used_ns > budget_ns()))
		detach(array, "it ran longer than its budget");
	else if (unlikely(array->turns > TURNS_MAX))
		detach(array, "too many turns of its loops in one call");
}

/* Calls an operation that is shown these bytes of array->event. */
static void call(struct read_policy_array *array, void (*operation)(void), size_t bytes, u64 now_ns)
{
	if (!operation)
		return;
	begin_call(array, &array->event, bytes, now_ns);
	operation();
	end_call(array);
}

/* Reports an I/O to the program that saw its submission. */
static void report(struct read_policy_array *array, void (*operation)(void),
		   const struct read_policy_io *io, const struct read_policy_event *shown,
		   u64 now_ns, u64 wait_ns)
{
	struct read_policy_event *event = &array->event;

	if (!operation || io->serial != array->serial)
		return;
	*event = *shown;
	event->now_ns = now_ns;
	event->wait_ns = wait_ns;
	event->stream = io->stream;
	event->id = io->id * READ_POLICY_MEMBERS + shown->member;
	call(array, operation, sizeof(*event), now_ns);
}

/* True if reads starve on the chosen member although another mirror has nothing to do. */
static bool is_starving(const struct read_policy_array *array, u32 chosen, u64 now_ns)
{
	const struct read_policy_read *read = &array->read;
	const struct read_policy_member *m = &read->mirror[chosen].m;
	u64 most_ns = (u64)starving_ms * NSEC_PER_MSEC;
	u32 i;

	if (!m->reads_in_flight || (m->last_wait_ns < most_ns &&
				    now_ns - array->progress_ns[m->index] < most_ns))
		return false;
	for (i = 0; i < read->nr; i++)
		if (!read->mirror[i].m.reads_in_flight && !read->mirror[i].m.writes_in_flight)
			return true;
	return false;
}

/* Asks the program about array->read. */
static int ask(struct read_policy_array *array, u64 now_ns)
{
	s64 chosen;

	begin_call(array, &array->read, sizeof(array->read), now_ns);
	chosen = array->ops->choose();
	end_call(array);
	array->decisions++;
	if (likely(chosen >= 0 && chosen < array->read.nr))
		return chosen;
	array->invalid++;
	return -1;
}

/**
 * read_policy_choose() - asks the program of an array for a mirror
 * @array: the array
 * @request: the read, with at least two mirrors that can serve it
 *
 * Context: any; takes the array's lock.
 * Return: the index of a mirror of @request, or -1: the built-in rule decides.
 */
int read_policy_choose(struct read_policy_array *array, const struct read_policy_request *request)
{
	struct read_policy_read *read = &array->read;
	unsigned long flags;
	int chosen = -1;
	u32 i;

	spin_lock_irqsave(&array->lock, flags);
	if (!array->ops)
		goto out;
	read->nr = min(request->nr, READ_POLICY_MIRRORS);
	read->now_ns = ktime_get_ns();
	read->offset = request->offset;
	read->length = request->length;
	read->stream = current->pid;
	read->cpu = smp_processor_id();
	read->flags = request->flags;
	read->copies = request->copies;
	read->members = array->members;
	for (i = 0; i < read->nr; i++) {
		read->mirror[i].offset = request->mirror[i].offset;
		read->mirror[i].copy = request->mirror[i].copy;
		read->mirror[i].m = array->member[request->mirror[i].member];
	}
	chosen = ask(array, read->now_ns);
	if (chosen < 0 || !is_starving(array, chosen, read->now_ns)) {
		array->starving = 0;
	} else if (++array->starving >= STARVING_MAX) {
		if (array->ops)
			detach(array, "reads starve while a mirror is idle");
		chosen = -1;
	}
out:
	spin_unlock_irqrestore(&array->lock, flags);
	return chosen;
}
EXPORT_SYMBOL_GPL(read_policy_choose);

/**
 * read_policy_submit() - reports an I/O that is handed to its member
 * @array: the array
 * @io: record of the I/O, which the caller keeps until its end on each member; zeroes at first
 * @shown: the I/O; times, stream and id are filled in here
 */
void read_policy_submit(struct read_policy_array *array, struct read_policy_io *io,
			const struct read_policy_event *shown)
{
	struct read_policy_member *m = &array->member[shown->member];
	unsigned long flags;
	u64 now_ns;

	spin_lock_irqsave(&array->lock, flags);
	if (!array->ops || shown->member >= array->members)
		goto out;
	now_ns = ktime_get_ns();
	if (!io->members) {
		io->epoch = array->epoch;
		io->serial = array->serial;
		io->stream = current->pid;
		io->id = ++array->ios;
		io->at_ns = now_ns;
	} else if (io->epoch != array->epoch) {
		/* A program was attached after a part of this write: its rest is not counted. */
		goto out;
	}
	io->members |= BIT_ULL(shown->member);
	if (!m->reads_in_flight && !m->writes_in_flight)
		array->progress_ns[shown->member] = now_ns;
	if (shown->op == READ_POLICY_READ)
		m->reads_in_flight++;
	else
		m->writes_in_flight++;
	m->bytes_in_flight += shown->length;
	m->submitted_end = shown->offset + shown->length;
	m->submitted_at_ns = now_ns;
	report(array, array->ops->submit, io, shown, now_ns, 0);
out:
	spin_unlock_irqrestore(&array->lock, flags);
}
EXPORT_SYMBOL_GPL(read_policy_submit);

static void count_completed(struct read_policy_member *m, const struct read_policy_event *event,
			    u64 wait_ns)
{
	m->bytes_in_flight -= event->length;
	m->completed_end = event->offset + event->length;
	m->last_wait_ns = wait_ns;
	if (event->op == READ_POLICY_READ)
		m->reads_in_flight--;
	else
		m->writes_in_flight--;
	if (event->result) {
		m->errors++;
	} else if (event->op == READ_POLICY_READ) {
		m->reads_completed++;
		m->read_bytes += event->length;
		m->read_wait_ns += wait_ns;
	} else {
		m->writes_completed++;
		m->written_bytes += event->length;
		m->write_wait_ns += wait_ns;
	}
}

/**
 * read_policy_complete() - reports the end of an I/O
 * @array: the array
 * @io: what read_policy_submit() filled in, or zeroes
 * @shown: as for read_policy_submit(), with the result
 */
void read_policy_complete(struct read_policy_array *array, struct read_policy_io *io,
			  const struct read_policy_event *shown)
{
	unsigned long flags;
	bool is_counted;
	u64 now_ns;

	if (shown->member >= READ_POLICY_MEMBERS)
		return;
	spin_lock_irqsave(&array->lock, flags);
	/* Only I/O that was counted at its submission is counted at its end. */
	is_counted = io->members & BIT_ULL(shown->member);
	io->members &= ~BIT_ULL(shown->member);
	if (!array->ops || !is_counted || io->epoch != array->epoch)
		goto out;
	now_ns = ktime_get_ns();
	array->progress_ns[shown->member] = now_ns;
	count_completed(&array->member[shown->member], shown, now_ns - io->at_ns);
	report(array, array->ops->complete, io, shown, now_ns, now_ns - io->at_ns);
out:
	spin_unlock_irqrestore(&array->lock, flags);
}
EXPORT_SYMBOL_GPL(read_policy_complete);

/**
 * read_policy_show_member() - describes a member, which may have changed since the last read
 * @array: the array
 * @index: of the member
 * @bdev: its device, or NULL if it is missing or has failed
 * @flags: READ_POLICY_WRITE_MOSTLY, READ_POLICY_REBUILDING
 */
void read_policy_show_member(struct read_policy_array *array, u32 index,
			     struct block_device *bdev, u32 flags)
{
	struct read_policy_member *m = &array->member[index];
	unsigned long irq_flags;
	u32 i;

	if (index >= READ_POLICY_MEMBERS)
		return;
	/* A member that failed stays the kind of device that it was. */
	if (!bdev)
		flags = READ_POLICY_FAILED | (READ_ONCE(m->flags) & READ_POLICY_ROTATIONAL);
	else if (bdev_rot(bdev))
		flags |= READ_POLICY_ROTATIONAL;
	if (index < READ_ONCE(array->members) && READ_ONCE(m->flags) == flags)
		return;
	spin_lock_irqsave(&array->lock, irq_flags);
	for (i = array->members; i <= index; i++)
		array->member[i] = (struct read_policy_member){
			.index = i, .devid = i + 1, .flags = READ_POLICY_FAILED
		};
	array->members = i;
	WRITE_ONCE(m->flags, flags);
	if (bdev) {
		m->size_bytes = bdev_nr_bytes(bdev);
		m->optimal_io_bytes = bdev_io_opt(bdev);
		m->queue_depth = bdev_get_queue(bdev)->nr_requests;
	}
	if (array->ops)
		call(array, array->ops->members_changed, 0, ktime_get_ns());
	spin_unlock_irqrestore(&array->lock, irq_flags);
}
EXPORT_SYMBOL_GPL(read_policy_show_member);

/* Puts a program into an array, or the built-in rule. The caller holds programs_lock. */
static void attach(struct read_policy_array *array, struct read_policy_ops *program)
{
	struct read_policy_ops *old = array->program;
	struct read_policy_member *m;
	unsigned long flags;

	if (program && !old)
		static_branch_inc(&read_policy_used);
	spin_lock_irqsave(&array->lock, flags);
	if (array->ops)
		call(array, array->ops->exit, 0, ktime_get_ns());
	if (!array->ops) {
		/* Nothing was counted until now. */
		array->epoch++;
		for (m = array->member; m < array->member + array->members; m++) {
			m->reads_in_flight = 0;
			m->writes_in_flight = 0;
			m->bytes_in_flight = 0;
		}
	}
	array->serial++;
	array->starving = 0;
	array->window_used_ns = 0;
	if (program) {
		array->reason = NULL;
		array->swaps++;
	}
	array->ops = program;
	if (array->ops)
		call(array, array->ops->init, 0, ktime_get_ns());
	spin_unlock_irqrestore(&array->lock, flags);
	if (old)
		old->array = NULL;
	if (program)
		program->array = array;
	array->program = program;
	if (old && !program)
		static_branch_dec(&read_policy_used);
}

/* Frees a program that detach() took out of its array. */
static void release_work(struct work_struct *work)
{
	struct read_policy_array *array = container_of(work, struct read_policy_array, release);

	mutex_lock(&programs_lock);
	if (array->program && !READ_ONCE(array->ops))
		attach(array, NULL);
	mutex_unlock(&programs_lock);
}

/*
 * A recorded call of the array "replay", which has no disks: 512 bytes. A record of members has
 * them one after the other, a read up to two mirrors.
 */
struct replay_record {
	u32 kind;			/* 0 read, 1 submission, 2 completion, 3 members */
	u32 expected;			/* mirror that was chosen, or number of members */
	u64 draws[6];
	union {
		u8 read[456];		/* leading bytes of struct read_policy_read */
		struct read_policy_event event;
		struct read_policy_member member[3];
	};
};

static_assert(sizeof(struct replay_record) == 512);

static void replay_record(struct read_policy_array *array, const struct replay_record *record)
{
	array->draws = record->draws;
	array->draws_end = record->draws + ARRAY_SIZE(record->draws);
	switch (record->kind) {
	case 0:
		memcpy(&array->read, record->read, sizeof(record->read));
		array->differences += ask(array, ktime_get_ns()) != record->expected;
		break;
	case 1:
	case 2:
		array->event = record->event;
		call(array, record->kind == 1 ? array->ops->submit : array->ops->complete,
		     sizeof(array->event), ktime_get_ns());
		break;
	case 3:
		array->members = min(record->expected, ARRAY_SIZE(record->member));
		memcpy(array->member, record->member, sizeof(record->member));
		call(array, array->ops->members_changed, 0, ktime_get_ns());
	}
	array->draws = NULL;
	array->draws_end = NULL;
}

/* Repeats recorded calls, and counts choices that differ. */
static ssize_t replay_write(struct file *file, struct kobject *kobj,
			    const struct bin_attribute *attr, char *bytes, loff_t offset,
			    size_t size)
{
	struct read_policy_array *array = container_of(kobj, struct read_policy_array, kobj);
	size_t at;

	for (at = 0; at + sizeof(struct replay_record) <= size;
	     at += sizeof(struct replay_record)) {
		spin_lock_irq(&array->lock);
		if (array->ops)
			replay_record(array, (const struct replay_record *)(bytes + at));
		spin_unlock_irq(&array->lock);
	}
	return size;
}

static const BIN_ATTR_WO(replay, 0);
static struct read_policy_array *replay_array;

static ssize_t policy_show(struct kobject *kobj, struct kobj_attribute *attr, char *text)
{
	struct read_policy_array *array = container_of(kobj, struct read_policy_array, kobj);
	struct read_policy_ops *program;
	int at;

	mutex_lock(&programs_lock);
	at = sysfs_emit(text, READ_ONCE(array->ops) ? "builtin" : "[builtin]");
	list_for_each_entry(program, &programs, list) {
		if (program->array == array && READ_ONCE(array->ops))
			at += sysfs_emit_at(text, at, " [bpf:%s]", program->name);
		else if (!program->array)
			at += sysfs_emit_at(text, at, " bpf:%s", program->name);
	}
	mutex_unlock(&programs_lock);
	return at + sysfs_emit_at(text, at, "\n");
}

static ssize_t policy_store(struct kobject *kobj, struct kobj_attribute *attr, const char *text,
			    size_t bytes)
{
	struct read_policy_array *array = container_of(kobj, struct read_policy_array, kobj);
	struct read_policy_ops *program;
	ssize_t result = -ENOENT;

	mutex_lock(&programs_lock);
	if (sysfs_streq(text, "builtin")) {
		attach(array, NULL);
		result = bytes;
	} else if (str_has_prefix(text, "bpf:")) {
		list_for_each_entry(program, &programs, list) {
			if (!sysfs_streq(text + 4, program->name))
				continue;
			result = -EBUSY;
			if (program->array)
				continue;
			attach(array, program);
			result = bytes;
			break;
		}
	}
	mutex_unlock(&programs_lock);
	return result;
}

static ssize_t statistics_show(struct kobject *kobj, struct kobj_attribute *attr, char *text)
{
	struct read_policy_array *array = container_of(kobj, struct read_policy_array, kobj);
	const char *reason = READ_ONCE(array->reason);

	return sysfs_emit(text, "decisions %llu\ninvalid %llu\nswaps %llu\nios %llu\n"
			  "differences %llu\ndetached %s\n", array->decisions, array->invalid,
			  array->swaps, array->ios, array->differences, reason ?: "no");
}

static struct kobj_attribute policy_attr = __ATTR_RW(policy);
static struct kobj_attribute statistics_attr = __ATTR_RO(statistics);
static struct attribute *read_policy_attrs[] = {
	&policy_attr.attr, &statistics_attr.attr, NULL
};
ATTRIBUTE_GROUPS(read_policy);

static void release_array(struct kobject *kobj)
{
	kfree(container_of(kobj, struct read_policy_array, kobj));
}

static const struct kobj_type read_policy_type = {
	.release = release_array,
	.sysfs_ops = &kobj_sysfs_ops,
	.default_groups = read_policy_groups,
};

/**
 * read_policy_add() - makes an array known
 * @name: of its folder in /sys/kernel/read_policy
 *
 * Return: the array, or NULL: the array then has its built-in rule only.
 */
struct read_policy_array *read_policy_add(const char *name)
{
	struct read_policy_array *array = kzalloc(sizeof(*array), GFP_KERNEL);

	if (!array)
		return NULL;
	spin_lock_init(&array->lock);
	INIT_WORK(&array->release, release_work);
	array->read.abi = READ_POLICY_ABI;
	if (kobject_init_and_add(&array->kobj, &read_policy_type, read_policy_kobj, "%s", name)) {
		kobject_put(&array->kobj);
		return NULL;
	}
	return array;
}
EXPORT_SYMBOL_GPL(read_policy_add);

/**
 * read_policy_remove() - forgets an array, which has no I/O in flight
 * @array: the array, or NULL
 */
void read_policy_remove(struct read_policy_array *array)
{
	if (!array)
		return;
	kobject_del(&array->kobj);
	mutex_lock(&programs_lock);
	attach(array, NULL);
	mutex_unlock(&programs_lock);
	cancel_work_sync(&array->release);
	kobject_put(&array->kobj);
}
EXPORT_SYMBOL_GPL(read_policy_remove);

static int read_policy_reg(void *kdata, struct bpf_link *link)
{
	struct read_policy_ops *program = kdata;
	bool is_known;

	mutex_lock(&programs_lock);
	/* A struct_ops map may have several links; one is enough. */
	is_known = program->list.next;
	if (!is_known)
		list_add_tail(&program->list, &programs);
	mutex_unlock(&programs_lock);
	return is_known ? -EBUSY : 0;
}

static void read_policy_unreg(void *kdata, struct bpf_link *link)
{
	struct read_policy_ops *program = kdata;

	mutex_lock(&programs_lock);
	if (program->array)
		attach(program->array, NULL);
	list_del(&program->list);
	program->list.next = NULL;
	mutex_unlock(&programs_lock);
}

static int read_policy_init_ops(struct btf *btf)
{
	return 0;
}

/*
 * Every call of a program ends soon, because its control flow without the turns of loops does: each
 * way from an instruction to the end of its function, on which bpf_iter_read_policy_next() returns
 * NULL, is finite and short. So a program ends after the iterator has reached its limits, and takes
 * no long time between two turns.
 */

/* Address of the kfunc that is called, or 0. */
static unsigned long kfunc_of(const struct bpf_prog *prog, const struct bpf_insn *insn)
{
	const struct bpf_kfunc_desc_tab *tab = prog->aux->kfunc_tab;
	u32 i;

	if (!bpf_pseudo_kfunc_call(insn))
		return 0;
	for (i = 0; tab && i < tab->nr_descs; i++)
		if (tab->descs[i].func_id == insn->imm && tab->descs[i].offset == insn->off)
			return tab->descs[i].addr;
	return 0;
}

/*
 * Where a program goes on after this call of bpf_iter_read_policy_next() if it gets no turn, and
 * how many instructions it has executed by then.
 */
static const struct bpf_insn *after_turns(const struct bpf_insn *call, u32 *between)
{
	const struct bpf_insn *insn;

	for (insn = call + 1; BPF_CLASS(insn->code) != BPF_JMP; insn++)
		/* Atomics may write to R0. The second half of a 64-bit constant has the code 0. */
		if (BPF_CLASS(insn->code) == BPF_JMP32 ||
		    (BPF_CLASS(insn->code) == BPF_STX && BPF_MODE(insn->code) == BPF_ATOMIC) ||
		    (insn->code && insn->dst_reg == BPF_REG_0))
			return call + 1;
	if (insn->dst_reg != BPF_REG_0 || insn->imm)
		return call + 1;
	*between = insn - call;
	if (insn->code == (BPF_JMP | BPF_JEQ | BPF_K))
		return insn + 1 + insn->off;
	return insn->code == (BPF_JMP | BPF_JNE | BPF_K) ? insn + 1 : call + 1;
}

/*
 * Most instructions from this one to the end of its function, without turns; 0 as long as the count
 * of an instruction that follows is not known.
 */
static u32 straight(const struct bpf_prog *prog, const u32 *counts, const struct bpf_insn *insn)
{
	const struct bpf_insn *next = insn + 1, *other = NULL;
	bool is_call = insn->code == (BPF_JMP | BPF_CALL);
	u32 count, more = 0;

	if (insn->code == (BPF_JMP | BPF_EXIT))
		return 1;
	if (kfunc_of(prog, insn) == (unsigned long)bpf_iter_read_policy_next)
		next = after_turns(insn, &more);
	else if (is_call && insn->src_reg == BPF_PSEUDO_CALL)
		other = next + insn->imm;
	else if (insn->code == (BPF_JMP32 | BPF_JA))
		next += insn->imm;
	else if (insn->code == (BPF_JMP | BPF_JA))
		next += insn->off;
	else if (BPF_CLASS(insn->code) == BPF_JMP32 ||
		 (BPF_CLASS(insn->code) == BPF_JMP && !is_call))
		other = next + insn->off;
	count = counts[next - prog->insnsi];
	if (other)
		more = counts[other - prog->insnsi];
	if (!count || (other && !more))
		return 0;
	return min(1 + (is_call ? count + more : max(count, more)), STRAIGHT_MAX + 1);
}

/* Why a program may take long, or NULL. */
static const char *check_loops(const struct bpf_prog *prog)
{
	u32 *counts = kvcalloc(prog->len, sizeof(*counts), GFP_KERNEL);
	int i, unknown = prog->len, before, passes = 0;
	bool is_long = false;

	if (!counts)
		return "no memory";
	do {
		before = unknown;
		for (i = prog->len - 1; i >= 0; i--) {
			if (counts[i])
				continue;
			counts[i] = straight(prog, counts, prog->insnsi + i);
			unknown -= counts[i] > 0;
			is_long |= counts[i] > STRAIGHT_MAX;
		}
	} while (unknown && unknown < before && ++passes < PASSES_MAX);
	kvfree(counts);
	if (unknown)
		return passes < PASSES_MAX ? "a loop without bpf_iter_read_policy" :
					     "too many jumps backward";
	return is_long ? "too many instructions without a turn of a loop" : NULL;
}

/* Why a program is refused, or NULL. */
static const char *refusal(const struct bpf_prog *prog)
{
	const struct bpf_insn *insn;

	if (prog->sleepable)
		return "it may sleep";
	/* Each access to a page that is missing would be a fault and a report. */
	if (prog->aux->arena)
		return "an arena";
	/* Counts as a part of another program: then no function of it can be replaced later. */
	prog->aux->prog_array_member_cnt++;
	for (insn = prog->insnsi; insn < prog->insnsi + prog->len; insn++) {
		if (insn->code == (BPF_JMP | BPF_JCOND) ||
		    insn->code == (BPF_JMP | BPF_JA | BPF_X))
			return "may_goto or a jump by a table";
		if (bpf_pseudo_kfunc_call(insn) &&
		    !within_module(kfunc_of(prog, insn), THIS_MODULE))
			return "a kfunc of another module";
	}
	return check_loops(prog);
}

static int read_policy_check_member(const struct btf_type *type, const struct btf_member *member,
				    const struct bpf_prog *prog)
{
	const char *reason = refusal(prog);

	if (reason)
		pr_warn("read_policy: %s refused: %s\n", prog->aux->name, reason);
	return reason ? -EACCES : 0;
}

static int read_policy_init_member(const struct btf_type *type, const struct btf_member *member,
				   void *kdata, const void *udata)
{
	const struct read_policy_ops *from = udata;
	struct read_policy_ops *to = kdata;
	const char *c;

	switch (__btf_member_bit_offset(type, member) / 8) {
	case offsetof(struct read_policy_ops, name):
		strscpy(to->name, from->name);
		for (c = to->name; *c; c++)
			if (!isalnum(*c) && *c != '-' && *c != '_')
				return -EINVAL;
		return c == to->name ? -EINVAL : 1;
	case offsetof(struct read_policy_ops, version):
		strscpy(to->version, from->version);
		return 1;
	}
	return 0;
}

static int read_policy_validate(void *kdata)
{
	return ((struct read_policy_ops *)kdata)->choose ? 0 : -EINVAL;
}

static const struct bpf_verifier_ops read_policy_verifier_ops = {
	.is_valid_access = bpf_tracing_btf_ctx_access,
};

static s64 choose_stub(void)
{
	return -1;
}

static void event_stub(void)
{
}

static struct read_policy_ops read_policy_stubs = {
	.choose = choose_stub,
	.submit = event_stub,
	.complete = event_stub,
	.init = event_stub,
	.exit = event_stub,
	.members_changed = event_stub,
};

static struct bpf_struct_ops read_policy_struct_ops = {
	.verifier_ops = &read_policy_verifier_ops,
	.init = read_policy_init_ops,
	.check_member = read_policy_check_member,
	.init_member = read_policy_init_member,
	.validate = read_policy_validate,
	.reg = read_policy_reg,
	.unreg = read_policy_unreg,
	.cfi_stubs = &read_policy_stubs,
	.name = "read_policy_ops",
	.owner = THIS_MODULE,
};

static int __init read_policy_module_init(void)
{
	int error;

	error = register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &read_policy_kfunc_set);
	if (!error)
		error = register_bpf_struct_ops(&read_policy_struct_ops, read_policy_ops);
	if (error)
		return error;
	read_policy_kobj = kobject_create_and_add("read_policy", kernel_kobj);
	if (!read_policy_kobj)
		return -ENOMEM;
	if (!replay)
		return 0;
	error = -ENOMEM;
	replay_array = read_policy_add("replay");
	if (replay_array)
		error = sysfs_create_bin_file(&replay_array->kobj, &bin_attr_replay);
	if (error) {
		read_policy_remove(replay_array);
		kobject_put(read_policy_kobj);
	}
	return error;
}

static void __exit read_policy_module_exit(void)
{
	read_policy_remove(replay_array);
	kobject_put(read_policy_kobj);
}

module_init(read_policy_module_init);
module_exit(read_policy_module_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Read policies of mirrored arrays as BPF programs");

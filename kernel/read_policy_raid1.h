/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What md raid1 asks and tells a read policy: included by raid1.c, in front of its first function
 * that reports. A member is a slot of the array, and replacements have slots of their own.
 */
#ifdef CONFIG_READ_POLICY_BPF
static bool rdev_readable(struct md_rdev *rdev, struct r1bio *r1_bio);

static void raid1_policy_show_member(struct r1conf *conf, int disk, struct md_rdev *rdev)
{
	bool is_there = rdev && !test_bit(Faulty, &rdev->flags);
	u32 flags = 0;

	if (is_there && test_bit(WriteMostly, &rdev->flags))
		flags |= READ_POLICY_WRITE_MOSTLY;
	if (is_there && !test_bit(In_sync, &rdev->flags))
		flags |= READ_POLICY_REBUILDING;
	read_policy_show_member(conf->policy, disk, is_there ? rdev->bdev : NULL, flags);
}

/* Returns the member that the policy chooses, or -1: md chooses. */
static int raid1_policy_choose(struct r1conf *conf, struct r1bio *r1_bio)
{
	struct read_policy_request request;
	int disk, chosen;

	if (!read_policy_is_used(conf->policy))
		return -1;
	request.nr = 0;
	for (disk = 0; disk < conf->raid_disks * 2; disk++) {
		struct md_rdev *rdev = conf->mirrors[disk].rdev;

		if (disk >= READ_POLICY_MEMBERS || (!rdev && disk >= conf->raid_disks))
			continue;
		raid1_policy_show_member(conf, disk, rdev);
		if (r1_bio->bios[disk] == IO_BLOCKED || !rdev_readable(rdev, r1_bio) ||
		    request.nr == READ_POLICY_MIRRORS)
			continue;
		request.mirror[request.nr].offset =
			(r1_bio->sector + rdev->data_offset) << SECTOR_SHIFT;
		request.mirror[request.nr].copy = disk;
		request.mirror[request.nr++].member = disk;
	}
	if (request.nr < 2)
		return -1;
	request.offset = r1_bio->sector << SECTOR_SHIFT;
	request.length = (u64)r1_bio->sectors << SECTOR_SHIFT;
	request.flags = r1_bio->master_bio->bi_opf & REQ_BACKGROUND ? READ_POLICY_BACKGROUND : 0;
	request.copies = conf->raid_disks;
	chosen = read_policy_choose(conf->policy, &request);
	if (chosen < 0)
		return -1;
	/* Another member can serve what this one fails fast. */
	set_bit(R1BIO_FailFast, &r1_bio->state);
	return request.mirror[chosen].member;
}

static struct read_policy_event raid1_policy_event(struct r1conf *conf, struct r1bio *r1_bio,
						    int disk, int op, blk_status_t status)
{
	struct md_rdev *rdev = conf->mirrors[disk].rdev;

	return (struct read_policy_event){
		.offset = (r1_bio->sector + (rdev ? rdev->data_offset : 0)) << SECTOR_SHIFT,
		.length = (u64)r1_bio->sectors << SECTOR_SHIFT,
		.member = disk,
		.op = op,
		.purpose = r1_bio->master_bio->bi_opf & REQ_META ? 4 : 0,
		.result = status ? 1 : 0,
		.volume_offset = r1_bio->sector << SECTOR_SHIFT,
	};
}

static void raid1_policy_submit(struct r1conf *conf, struct r1bio *r1_bio, int disk, int op)
{
	if (read_policy_is_used(conf->policy)) {
		struct read_policy_event event = raid1_policy_event(conf, r1_bio, disk, op, 0);

		read_policy_submit(conf->policy, &r1_bio->policy, &event);
	}
}

static void raid1_policy_complete(struct r1conf *conf, struct r1bio *r1_bio, int disk, int op,
				  blk_status_t status)
{
	if (read_policy_is_used(conf->policy)) {
		struct read_policy_event event = raid1_policy_event(conf, r1_bio, disk, op, status);

		read_policy_complete(conf->policy, &r1_bio->policy, &event);
	}
}
#else
#define raid1_policy_choose(...) -1
#define raid1_policy_submit(...) do {} while (0)
#define raid1_policy_complete(...) do {} while (0)
#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What btrfs asks and tells a read policy, for RAID1 and RAID10. A member is a device, by its devid
 * from 1 to 64; the file system's UUID names it in /sys/kernel/read_policy.
 */
#ifndef READ_POLICY_BTRFS_H
#define READ_POLICY_BTRFS_H

#ifdef CONFIG_READ_POLICY_BPF
static inline void btrfs_policy_show_device(struct btrfs_fs_info *fs_info,
					    struct btrfs_device *device)
{
	bool is_there = device->bdev && !test_bit(BTRFS_DEV_STATE_MISSING, &device->dev_state);

	read_policy_show_member(fs_info->policy, device->devid - 1,
				is_there ? device->bdev : NULL, 0);
}

static inline void btrfs_policy_add(struct btrfs_fs_info *fs_info)
{
	struct btrfs_device *device;
	char name[40];

	snprintf(name, sizeof(name), "%pU", fs_info->fs_devices->fsid);
	fs_info->policy = read_policy_add(name);
	if (!fs_info->policy)
		return;
	mutex_lock(&fs_info->fs_devices->device_list_mutex);
	list_for_each_entry(device, &fs_info->fs_devices->devices, dev_list)
		btrfs_policy_show_device(fs_info, device);
	mutex_unlock(&fs_info->fs_devices->device_list_mutex);
}

/* Returns the number of the mirror that serves a read, or 0: btrfs chooses. */
static inline int btrfs_policy_mirror(struct btrfs_fs_info *fs_info, struct btrfs_chunk_map *map,
				      u32 row, u64 offset, u64 logical, u64 length)
{
	struct read_policy_request request = { .offset = logical, .length = length };
	u32 i, first = 0, nr = map->num_stripes;
	int chosen;

	if (!read_policy_is_used(fs_info->policy) ||
	    !(map->type & (BTRFS_BLOCK_GROUP_RAID1_MASK | BTRFS_BLOCK_GROUP_RAID10)))
		return 0;
	if (map->type & BTRFS_BLOCK_GROUP_RAID10) {
		nr = map->sub_stripes;
		first = row % (map->num_stripes / nr) * nr;
		row /= map->num_stripes / nr;
	}
	request.copies = nr;
	for (i = 0; i < nr; i++) {
		struct btrfs_device *device = map->stripes[first + i].dev;

		btrfs_policy_show_device(fs_info, device);
		if (!device->bdev || device->devid - 1 >= READ_POLICY_MEMBERS)
			continue;
		request.mirror[request.nr].offset = map->stripes[first + i].physical +
			offset + btrfs_stripe_nr_to_offset(row);
		request.mirror[request.nr].copy = i;
		request.mirror[request.nr++].member = device->devid - 1;
	}
	if (request.nr < 2)
		return 0;
	chosen = read_policy_choose(fs_info->policy, &request);
	return chosen < 0 ? 0 : request.mirror[chosen].copy + 1;
}

static inline void btrfs_policy_submit(struct btrfs_device *device, struct bio *bio)
{
	struct btrfs_bio *bbio = btrfs_bio(bio);
	bool is_data_read = bio_op(bio) == REQ_OP_READ && !(bio->bi_opf & REQ_META);

	if (!device->fs_info || !read_policy_is_used(device->fs_info->policy))
		return;
	bbio->policy_event = (struct read_policy_event){
		.offset = bio->bi_iter.bi_sector << SECTOR_SHIFT,
		.length = bio->bi_iter.bi_size,
		.member = device->devid - 1,
		.op = bio_op(bio) == REQ_OP_READ ? READ_POLICY_READ : READ_POLICY_WRITE,
		.purpose = bio->bi_opf & REQ_META ? 4 : 0,
	};
	/* Only a read of data keeps where it is on the volume. */
	bbio->policy_event.volume_offset = is_data_read ?
		bbio->saved_iter.bi_sector << SECTOR_SHIFT : bbio->policy_event.offset;
	read_policy_submit(device->fs_info->policy, &bbio->policy, &bbio->policy_event);
}

static inline void btrfs_policy_complete(struct bio *bio)
{
	struct btrfs_bio *bbio = btrfs_bio(bio);
	struct read_policy_array *array = bbio->inode->root->fs_info->policy;

	if (!read_policy_is_used(array))
		return;
	bbio->policy_event.result = bio->bi_status ? 1 : 0;
	read_policy_complete(array, &bbio->policy, &bbio->policy_event);
}
#else
#define btrfs_policy_add(...) do {} while (0)
#define btrfs_policy_submit(...) do {} while (0)
#define btrfs_policy_complete(...) do {} while (0)
#endif

#endif /* READ_POLICY_BTRFS_H */

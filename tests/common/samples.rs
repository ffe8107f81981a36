//! The array and the job that most tests of simulations run: unequal disks, so that policies
//! differ, and a reader at some depth.

/// An SSD and a hard disk, mirrored.
pub(crate) const ARRAY: &str = "\
profile = \"raid1\"
[[member]]
model = \"ssd-sata-consumer\"
[[member]]
model = \"hdd-7k2-desktop\"
";

/// A job of random reads, for ten seconds if nothing shorter is said.
pub(crate) const JOB: &str = "\
[reader]
ioengine=libaio
direct=1
rw=randread
bs=4k
size=1g
iodepth=4
runtime=10
time_based
";
